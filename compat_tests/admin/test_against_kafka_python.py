"""The administrator's answers are those of kafka-python's admin client, about Odradek and about Apache Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata, TopicPartition
from odradek.admin import (
    configs,
    features,
    group_offsets,
    groups,
    log_directories,
    nodes,
    topic_changes,
    topics,
    transactions,
)
from odradek.admin.connection import Connection
from odradek.admin.log_offsets import list_offsets
from odradek.admin.metadata_quorum import describe_quorum
from odradek.admin.session import Admin
from odradek.protocol.log_places import EARLIEST, LATEST

from compat_tests.oracle import ApacheKafka


@pytest.fixture(scope="module", params=["odradek", "apache"])
def cluster(request: pytest.FixtureRequest) -> str:
    """The bootstrap addresses of either cluster."""
    if request.param == "apache":
        apache: ApacheKafka = request.getfixturevalue("apache_kafka")
        return apache.bootstrap
    bootstrap: str = request.getfixturevalue("odradek").bootstrap
    return bootstrap


@pytest.fixture
def admin(cluster: str) -> Iterator[Admin]:
    with Connection({"bootstrap.servers": cluster}).admin() as made:
        yield made


@pytest.fixture
def theirs(cluster: str) -> Iterator[Any]:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=cluster)) as made:
        yield made


@pytest.fixture
def made(admin: Admin, topic: str) -> str:
    (result,) = topic_changes.create_topics(admin, {topic: topic_changes.NewTopic(3, 1, {"retention.ms": "86400000"})})
    assert result.error_code == 0, result
    topic_changes.wait_for_topics(admin, [topic])
    return topic


def test_cluster_and_its_brokers(admin: Admin, theirs: Any) -> None:
    ours, expected = nodes.describe_cluster(admin), theirs.describe_cluster()
    assert ours.cluster_id == expected["cluster_id"]
    assert [(one.broker_id, one.host, one.port, one.rack) for one in ours.brokers] == [
        (one["broker_id"], one["host"], one["port"], one["rack"]) for one in expected["brokers"]
    ]


def test_topics_and_pages_of_them(admin: Admin, theirs: Any, made: str) -> None:
    (ours,), (expected,) = topics.described_topics(admin, [made]), theirs.describe_topics([made])
    assert (ours.name, str(ours.topic_id), ours.is_internal) == (made, str(expected["topic_id"]), False)
    fields = ("partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")
    assert [[getattr(one, field) for field in fields] for one in ours.partitions] == [
        [one[field] for field in fields]
        for one in sorted(expected["partitions"], key=lambda one: int(one["partition_index"]))
    ]
    paged, cursor = [], None
    while True:
        page = topics.describe_topic_page(admin, 2, cursor)
        paged += [(one.name, each.partition_index) for one in page.topics for each in one.partitions]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [index for name, index in paged if name == made] == [0, 1, 2]


def test_configs_with_sources_types_and_synonyms(admin: Admin, theirs: Any, made: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, made)
    expected = theirs.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][made]
    ours = configs.describe_configs(admin, configs.Kind.TOPIC, made)
    assert {
        key: (one.value, one.config_source, one.config_type, one.read_only, one.is_sensitive,
              [(each.name, each.value, each.source) for each in one.synonyms])
        for key, one in ours.items()
    } == {
        key: (one["value"], one["config_source"], one["config_type"], one["read_only"], one["is_sensitive"],
              [(each["name"], each["value"], each["source"]) for each in one["synonyms"]])
        for key, one in expected.items()
    }  # fmt: skip
    assert configs.own_configs(admin, made)["retention.ms"] == "86400000"


def test_offsets_of_logs_and_replicas_on_disks(admin: Admin, theirs: Any, made: str) -> None:
    for timestamp in (EARLIEST, LATEST, 1_000):
        asked = {TopicPartition(made, index): timestamp for index in range(3)}
        expected = theirs.list_partition_offsets(asked)
        ours = list_offsets(admin, {(made, index): timestamp for index in range(3)})
        assert ours == {
            (where.topic, where.partition): (one.offset, one.timestamp, one.leader_epoch)
            for where, one in expected.items()
        }
    ours_on_disks = log_directories.describe_log_dirs(admin, {made: [0, 1, 2]})
    for found, directories in zip(ours_on_disks, theirs.describe_log_dirs({made: [0, 1, 2]}), strict=True):
        assert found.broker == directories["broker"]
        assert [(one.log_dir, one.total_bytes) for one in found.log_dirs] == [
            (one["log_dir"], one["total_bytes"]) for one in directories["log_dirs"]
        ]
        assert [
            (topic.name, replica.partition_index, replica.partition_size)
            for one in found.log_dirs for topic in one.topics for replica in topic.partitions
        ] == [
            (topic["name"], replica["partition_index"], replica["partition_size"])
            for one in directories["log_dirs"] for topic in one["topics"] for replica in topic["partitions"]
        ]  # fmt: skip


def test_offsets_of_groups_both_ways(admin: Admin, theirs: Any, made: str, group: str) -> None:
    group_offsets.commit(admin, group, {(made, 0): 0, (made, 2): 0}, {(made, 2): "a note"})
    found = theirs.list_group_offsets({group: None})[group]
    assert {(where.partition, one.offset, one.metadata) for where, one in found.items()} == {
        (0, 0, ""),
        (2, 0, "a note"),
    }
    theirs.alter_group_offsets(group, {TopicPartition(made, 1): OffsetAndMetadata(0, "theirs", None)})
    assert group_offsets.committed(admin, group) == {
        (made, 0): (0, ""), (made, 1): (0, "theirs"), (made, 2): (0, "a note")
    }  # fmt: skip
    ours = {one.group_id: (one.group_state, one.group_type) for one in groups.list_groups(admin)}
    assert ours == {one["group_id"]: (one["group_state"], one["group_type"]) for one in theirs.list_groups()}
    group_offsets.delete_offsets(admin, group, [(made, 0)])
    assert {place[1] for place in group_offsets.committed(admin, group)} == {1, 2}
    groups.delete_group(admin, group)
    assert group not in {one["group_id"] for one in theirs.list_groups()}


def test_quorum_features_and_transactions(admin: Admin, theirs: Any) -> None:
    ours = describe_quorum(admin)
    expected = theirs.describe_metadata_quorum()["topics"][0]["partitions"][0]
    assert (ours.leader_id, ours.leader_epoch) == (expected["leader_id"], expected["leader_epoch"])
    assert [(one.replica_id, str(one.replica_directory_id)) for one in ours.current_voters] == [
        (one["replica_id"], str(one["replica_directory_id"])) for one in expected["current_voters"]
    ]
    levels = theirs.describe_features()
    assert {name: (one.supported, one.finalized) for name, one in features.describe_features(admin).items()} == {
        name: (one.get("supported"), one.get("finalized")) for name, one in levels.items()
    }
    assert transactions.list_transactions(admin).keys() == theirs.list_transactions().keys()
