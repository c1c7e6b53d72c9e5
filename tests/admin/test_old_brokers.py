"""The administrator with brokers that lack newer APIs and versions: it sends what they have.

The broker is Odradek's, which still serves these versions; the connection learns of no others, as from Apache Kafka 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import odradek
import pytest
from odradek.admin import acls, config_changes, configs, features, groups, log_directories, nodes, topic_changes, topics
from odradek.admin.connection import Connection
from odradek.admin.errors import InvalidOptions, NotSupported, ResponseError
from odradek.admin.group_offsets import commit, committed
from odradek.admin.log_offsets import list_offsets, partition_offsets
from odradek.admin.metadata_quorum import describe_quorum
from odradek.admin.readings import replica_sizes
from odradek.admin.session import Admin
from odradek.client.connection import PeerConnection
from odradek.protocol.apis import APIS
from odradek.protocol.log_places import EARLIEST, LATEST
from odradek.protocol.schema import Message

pytestmark = pytest.mark.usefixtures("sockets")

#: The highest version of each API of Apache Kafka 2.1 that an administrator uses.
OF_2_1 = {
    "ListOffsets": 4, "Metadata": 7, "OffsetCommit": 6, "OffsetFetch": 5, "FindCoordinator": 2, "DescribeGroups": 2,
    "ListGroups": 2, "SaslHandshake": 1, "ApiVersions": 2, "CreateTopics": 3, "DeleteTopics": 3, "DeleteRecords": 1,
    "DescribeAcls": 1, "CreateAcls": 1, "DeleteAcls": 1, "DescribeConfigs": 2, "AlterConfigs": 1, "DescribeLogDirs": 1,
    "CreatePartitions": 1, "DeleteGroups": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


@pytest.fixture
def admin(broker: odradek.Broker) -> Iterator[Admin]:
    broker.reset()
    learn = PeerConnection._learn_versions

    def learn_old(connection: PeerConnection, response: Message | None) -> None:
        if response is not None and not getattr(response, "error_code", 0):
            kept = [one for one in response.api_keys if APIS[one.api_key].name in OF_2_1]  # type: ignore[attr-defined]
            for one in kept:
                one.max_version = min(one.max_version, OF_2_1[APIS[one.api_key].name])
            response.api_keys = kept  # type: ignore[attr-defined]
        learn(connection, response)

    with (
        patch.object(PeerConnection, "_learn_versions", learn_old),
        Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as made,
    ):
        yield made


def test_topics_are_created_described_extended_and_deleted(admin: Admin) -> None:
    (made,) = topic_changes.create_topics(admin, {"orders": topic_changes.NewTopic(2, 1, {"retention.ms": "1000"})})
    assert made.error_code == 0
    (found,) = topics.described_topics(admin, ["orders"])
    assert (found.name, found.topic_id, len(found.partitions)) == ("orders", None, 2)
    topic_changes.create_partitions(admin, {"orders": 3})
    assert len(topics.described_topics(admin, ["orders"])[0].partitions) == 3
    (gone,) = topic_changes.delete_topics(admin, ["orders"])
    assert gone.error_code == 0 and "orders" not in topics.list_topics(admin)
    with pytest.raises(ResponseError, match=r"topic orders: .*\(UNKNOWN_TOPIC_OR_PARTITION\)"):
        topics.described_topics(admin, ["orders"])
    with pytest.raises(NotSupported, match="DescribeTopicPartitions"):
        topics.describe_topic_page(admin, 10, None)


def test_configs_are_altered_as_a_whole_and_others_stay(admin: Admin, broker: odradek.Broker) -> None:
    topic_changes.create_topics(
        admin, {"orders": topic_changes.NewTopic(1, 1, {"retention.ms": "1000", "segment.ms": "2000"})}
    )
    config_changes.alter_configs(admin, "topic", "orders", {"retention.ms": ("SET", "3000")}, dry_run=False)
    assert configs.own_configs(admin, "orders") == {"retention.ms": "3000", "segment.ms": "2000"}
    config_changes.alter_configs(admin, "topic", "orders", {"segment.ms": ("DELETE", None)}, dry_run=False)
    assert configs.own_configs(admin, "orders") == {"retention.ms": "3000"}
    config_changes.alter_configs(admin, "topic", "orders", {"retention.ms": ("SET", "4000")}, dry_run=True)
    assert configs.own_configs(admin, "orders") == {"retention.ms": "3000"}
    with pytest.raises(ResponseError, match="INVALID_CONFIG"):
        config_changes.alter_configs(admin, "topic", "orders", {"retention.ms": ("SET", "soon")}, dry_run=False)
    with pytest.raises(NotSupported, match="IncrementalAlterConfigs"):
        config_changes.alter_configs(admin, "topic", "orders", {"cleanup.policy": ("APPEND", "compact")}, dry_run=False)


def test_configs_of_all_brokers_are_altered_as_a_whole_and_others_stay(admin: Admin) -> None:
    for key, value in (("log.retention.ms", "86400000"), ("log.segment.bytes", "2000000")):
        config_changes.alter_configs(admin, "broker", configs.ALL_BROKERS, {key: ("SET", value)}, dry_run=False)
    found = configs.own_values(admin, configs.Kind.BROKER, configs.ALL_BROKERS)
    assert found["log.retention.ms"].value == "86400000" and found["log.segment.bytes"].value == "2000000"
    assert found["min.insync.replicas"].value == "1"  # set by the format command


def test_change_that_would_lose_a_hidden_config_is_refused(admin: Admin) -> None:
    hidden = {"plugin.secret": ("SET", "secret")}
    config_changes.alter_configs(admin, "broker", configs.ALL_BROKERS, hidden, dry_run=False)
    with pytest.raises(InvalidOptions, match=r"do not show plugin\.secret: set these, too"):
        config_changes.alter_configs(
            admin, "broker", configs.ALL_BROKERS, {"log.retention.ms": ("SET", "1000")}, dry_run=False
        )
    assert "plugin.secret" in configs.own_values(admin, configs.Kind.BROKER, configs.ALL_BROKERS)
    config_changes.alter_configs(
        admin, "broker", configs.ALL_BROKERS, {"plugin.secret": ("DELETE", None)}, dry_run=False
    )


def test_offsets_of_logs_and_groups(admin: Admin, broker: odradek.Broker) -> None:
    for value in (b"1", b"2", b"3"):
        broker.topic("orders").send(value)
    place = ("orders", 0)
    assert list_offsets(admin, {place: LATEST})[place].offset == 3
    described = topics.described_topics(admin, ["orders"])
    assert partition_offsets(admin, described, EARLIEST) == {place: 0}
    topic_changes.delete_records(admin, {place: 2})
    assert partition_offsets(admin, described, EARLIEST) == {place: 2}
    commit(admin, "billing", {place: 1}, {place: "a note"})
    assert committed(admin, "billing") == {place: (1, "a note")}
    (listed,) = groups.list_groups(admin)
    assert (listed.group_id, listed.kind, listed.group_state) == ("billing", "classic", "")
    assert groups.describe_classic_group(admin, "billing").group_state == "Empty"
    groups.delete_group(admin, "billing")
    assert committed(admin, "billing") == {} and groups.list_groups(admin) == []


def test_brokers_directories_and_what_such_brokers_lack(admin: Admin, broker: odradek.Broker) -> None:
    broker.topic("orders").send(b"1")
    cluster = nodes.describe_cluster(admin)
    assert len(cluster.brokers) == 1 and cluster.running == [cluster.brokers[0].broker_id]
    ((directory,),) = (one.log_dirs for one in log_directories.describe_log_dirs(admin))
    assert directory.total_bytes is None and directory.error_code == 0
    assert replica_sizes(admin, {"orders": [0]})["orders", 0] > 0
    assert features.describe_features(admin) == {}
    with pytest.raises(NotSupported, match="DescribeQuorum"):
        describe_quorum(admin)
    with pytest.raises(ResponseError, match="SECURITY_DISABLED"):
        acls.describe_acls(admin, acls.AclFilter())
