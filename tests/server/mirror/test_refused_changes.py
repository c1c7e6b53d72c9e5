"""Changes to mirrored topics by each API: refused with a word, or harmless with a reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, PolicyViolationError
from odradek.admin import config_changes, configs, group_offsets, mirrors, topic_changes, topics
from odradek.admin.configs import Kind
from odradek.admin.errors import ResponseError
from odradek.protocol.apis import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    LegacyAlterableConfig,
    LegacyAlterConfigsResource,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, batches, odradek_command, offsets, produce, values

pytestmark = pytest.mark.usefixtures("sockets")

MIRROR = "mirror of link dr and read-only"


def refused_produce(pair: Pair) -> None:
    with (
        closing(KafkaProducer(bootstrap_servers=pair.here.bootstrap_servers)) as producer,
        pytest.raises(PolicyViolationError, match=MIRROR),
    ):
        producer.send("orders", b"x").get(10)


def refused_transaction(pair: Pair) -> None:
    with closing(KafkaProducer(bootstrap_servers=pair.here.bootstrap_servers, transactional_id="t")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaError, match="PolicyViolationError"):
            producer.send("orders", b"x").get(10)
        producer.abort_transaction()


def refused_marker(pair: Pair) -> None:
    topic = WritableTxnMarkerTopic("orders", [0])
    request = WriteTxnMarkersRequest([WritableTxnMarker(7, 0, False, [topic], 0)])
    (result,) = pair.admin.ask(request).markers
    assert result.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION


def refused_deletion_of_records(pair: Pair) -> None:
    with pytest.raises(ResponseError, match="POLICY_VIOLATION"):
        topic_changes.delete_records(pair.admin, {("orders", 0): 2})


def refused_partitions(pair: Pair) -> None:
    (result,) = topic_changes.create_partitions(pair.admin, {"orders": 2})
    assert result.error_code == ErrorCode.POLICY_VIOLATION and MIRROR in (result.error_message or "")


def refused_config(pair: Pair) -> None:
    with pytest.raises(ResponseError, match=MIRROR):
        config_changes.alter_configs(pair.admin, "topic", "orders", {"retention.ms": ("SET", "1")}, dry_run=False)


def refused_configs_as_a_whole(pair: Pair) -> None:
    """The old API deletes what it does not name: the topic would be writable."""
    own = [LegacyAlterableConfig("min.insync.replicas", "1")]
    request = AlterConfigsRequest([LegacyAlterConfigsResource(Kind.TOPIC, "orders", own)])
    (result,) = pair.admin.ask_controller(request).responses
    assert result.error_code == ErrorCode.POLICY_VIOLATION and MIRROR in (result.error_message or "")


REFUSED: dict[str, Callable[[Pair], None]] = {
    "Produce": refused_produce,
    "AddPartitionsToTxn": refused_transaction,
    "WriteTxnMarkers": refused_marker,
    "DeleteRecords": refused_deletion_of_records,
    "CreatePartitions": refused_partitions,
    "IncrementalAlterConfigs": refused_config,
    "AlterConfigs": refused_configs_as_a_whole,
}
#: APIs that name a topic or a partition in a change, and leave its records, partitions and followed configs as they are.
HARMLESS = {
    "CreateTopics": "the name is taken",
    "DeleteTopics": "the link makes the topic anew, with all that the source has",
    "AlterPartitionReassignments": "replicas are this cluster's own",
    "AlterReplicaLogDirs": "replicas are this cluster's own",
    "AssignReplicasToDirs": "of a broker",
    "AlterPartition": "of a broker",
    "ElectLeaders": "leaders are this cluster's own",
    "OffsetCommit": "commits are allowed",
    "TxnOffsetCommit": "commits are allowed",
    "OffsetDelete": "commits are allowed",
    "AlterShareGroupOffsets": "as commits",
    "DeleteShareGroupOffsets": "as commits",
    "InitializeShareGroupState": "as commits",
    "WriteShareGroupState": "as commits",
    "DeleteShareGroupState": "as commits",
    "ShareFetch": "as commits; dead-letter records are produced",
    "ShareAcknowledge": "as commits; dead-letter records are produced",
    "EndTxn": "a mirror is in no transaction of this cluster",
}
#: APIs that change no topic.
NONE = {
    "Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup",
    "SyncGroup", "DescribeGroups", "ListGroups", "SaslHandshake", "ApiVersions", "InitProducerId", "OffsetForLeaderEpoch",
    "AddOffsetsToTxn", "DescribeAcls", "CreateAcls", "DeleteAcls", "DescribeConfigs", "DescribeLogDirs", "SaslAuthenticate",
    "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken", "DeleteGroups",
    "ListPartitionReassignments", "DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials",
    "AlterUserScramCredentials", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "DescribeQuorum", "UpdateFeatures",
    "Envelope", "FetchSnapshot", "DescribeCluster", "DescribeProducers", "BrokerRegistration", "BrokerHeartbeat",
    "UnregisterBroker",
    "DescribeTransactions", "ListTransactions", "AllocateProducerIds", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
    "ControllerRegistration", "GetTelemetrySubscriptions", "PushTelemetry", "ListConfigResources",
    "DescribeTopicPartitions",
    "ShareGroupHeartbeat", "ShareGroupDescribe", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter",
    "ReadShareGroupState", "ReadShareGroupStateSummary", "StreamsGroupHeartbeat", "StreamsGroupDescribe",
    "DescribeShareGroupOffsets", "UnregisterController", "StreamsGroupTopologyDescriptionUpdate",
}  # fmt: skip


@pytest.fixture
def mirrored(pair: Pair) -> Pair:
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 3)
    return pair


def test_every_api_has_a_verdict() -> None:
    assert {api.name for api in APIS.values()} == {*REFUSED, *HARMLESS, *NONE}


@pytest.mark.parametrize("api", REFUSED)
def test_change_is_refused(mirrored: Pair, api: str) -> None:
    before = batches(mirrored.here, "orders"), configs.own_configs(mirrored.admin, "orders")
    REFUSED[api](mirrored)
    assert (batches(mirrored.here, "orders"), configs.own_configs(mirrored.admin, "orders")) == before
    produce(mirrored.source, "orders", 1)
    mirrored.wait_for("orders", lambda one: one.offset == 4)


def test_deleted_mirror_is_made_anew(mirrored: Pair) -> None:
    topic_changes.delete_topics(mirrored.admin, ["orders"])
    wait_until(lambda: "orders" in topics.list_topics(mirrored.admin))
    mirrored.wait_for("orders", lambda one: one.state == "following")
    mirrored.wait_equal("orders")


def test_two_clusters_that_follow_each_other_are_no_circle(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    produce(pair.here, "bills", 2)
    pair.create_link("there", topics=".*", prefix="there.")
    back = {"bootstrap.servers": pair.here.bootstrap_servers, "topics": ".*", "prefix": "here."}
    mirrors.create_link(pair.there, "here", back, dry_run=False)
    pair.wait_for("there.orders", lambda one: one.offset == 3, link="there")
    wait_until(lambda: "here.there.orders" in mirrors.read_report(pair.there, "here").refused)
    wait_until(lambda: "there.here.bills" in mirrors.read_report(pair.admin, "there").refused)
    assert sorted(topics.list_topics(pair.admin)) == ["__consumer_offsets", "bills", "there.orders"]
    assert sorted(topics.list_topics(pair.there)) == ["__consumer_offsets", "here.bills", "orders"]


def test_mirror_of_a_deleted_topic_does_not_come_back_as_its_source(mirrored: Pair) -> None:
    topic_changes.delete_topics(mirrored.there, ["orders"])
    mirrored.wait_for("orders", lambda one: one.state == "missing")
    back = {"bootstrap.servers": mirrored.here.bootstrap_servers, "topics": "orders"}
    mirrors.create_link(mirrored.there, "back", back, dry_run=False)
    wait_until(lambda: "circle" in mirrors.read_report(mirrored.there, "back").refused.get("orders", ""))
    assert "orders" not in topics.list_topics(mirrored.there)
    assert len(values(mirrored.here, "orders")) == 3


@pytest.mark.usefixtures("processes")
def test_link_to_itself_is_refused(pair: Pair) -> None:
    address = pair.here.bootstrap_servers
    refused = odradek_command("mirror", "create", "me", "--from", address, "--topics", ".*", "-b", address)
    assert refused.returncode == 1 and "this cluster itself" in refused.stderr


@pytest.mark.usefixtures("processes")
def test_group_with_members_here_is_skipped_and_named(pair: Pair) -> None:
    produce(pair.source, "orders", 10)
    group_offsets.commit(pair.there, "app", {("orders", 0): 4})
    pair.create_link(topics="orders", groups=".*")
    wait_until(lambda: offsets(pair, "app") == {("orders", 0): 4})
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=pair.here.bootstrap_servers, group_id="app", enable_auto_commit=False
    )
    with closing(consumer):
        wait_until(lambda: consumer.poll(timeout_ms=100))
        group_offsets.commit(pair.there, "app", {("orders", 0): 6})
        wait_until(lambda: "members" in mirrors.read_report(pair.admin, "dr").skipped.get("app", ""))
        assert offsets(pair, "app") == {("orders", 0): 4}
        shown = odradek_command("mirror", "status", "dr", "-b", pair.here.bootstrap_servers)
        assert shown.returncode == 0 and "offsets of group app are not copied: it has members here" in shown.stderr
        # A switch does not stop half-way for such a group.
        done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
        assert done.returncode == 0 and "group app" in done.stderr, done.stderr
    produce(pair.here, "orders", 1)


@pytest.mark.usefixtures("processes")
def test_transaction_that_is_open_at_a_switch_ends_at_the_source(pair: Pair) -> None:
    settings = {"bootstrap_servers": pair.source.bootstrap_servers, "transactional_id": "t"}
    with closing(KafkaProducer(**settings, transaction_timeout_ms=3_000)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("paid", b"open").get(10)
        pair.create_link(topics="paid")
        pair.wait_for("paid", lambda one: one.state == "following")
        done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
        assert done.returncode == 0, done.stderr
    assert batches(pair.here, "paid") == batches(pair.source, "paid")
    assert len(batches(pair.here, "paid")) == 2, "the record, and the marker of the abort"
    assert values(pair.here, "paid") == []


def test_committed_offset_stays_below_what_is_here_on_a_coordinator_without_a_replica() -> None:
    import odradek

    with odradek.Broker() as source, odradek.Cluster(brokers=3) as cluster:
        produce(source, "orders", 10)
        with closing(admin_of(source)) as there, closing(admin_of(cluster)) as admin:
            link = {"bootstrap.servers": source.bootstrap_servers, "topics": "orders", "groups": "app-.*"}
            mirrors.create_link(admin, "dr", link | {"replication.factor": "1"}, dry_run=False)
            groups = [f"app-{number}" for number in range(6)]
            for group in groups:
                group_offsets.commit(there, group, {("orders", 0): 999})
            for group in groups:
                wait_until(lambda group=group: group_offsets.committed(admin, group))
            found = {group: group_offsets.committed(admin, group)["orders", 0].offset for group in groups}
            assert all(offset <= 10 for offset in found.values()), found
            for group in groups:
                wait_until(lambda group=group: group_offsets.committed(admin, group)["orders", 0].offset == 10)
