"""A coordinator restores its state from its own topic after the strictest compaction and a kill of the leader.

`__transaction_state` and `__consumer_offsets` have two replicas, each compacted by its broker. Segments have one or a few
batches; compaction removes tombstones and markers at once. The next leader loads its own compacted log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_topics import CreatableTopicConfig
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import Message
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, find_offsets

from compat_tests.asking import coordinator_of
from compat_tests.batches import leader_of, read_batches
from compat_tests.recipes import is_end_of_partition
from compat_tests.wire import WireClient
from tests.server.harness.cluster_process import BROKER, CONTROLLER, DEADLINE_S, Cluster

pytestmark = pytest.mark.usefixtures("processes")

STATES, OFFSETS = "__transaction_state", "__consumer_offsets"
GROUP, TRANSACTION = 0, 1
COORDINATORS, OTHER = (2, 3), 4
LONG_MS = 1_800_000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "1",
}
IDS = ("done", "aborted", "open", "prepared")
COMMITTED = {"plain": 7, "in transactions": 5, "pending": 4}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    roles = (CONTROLLER, BROKER, BROKER, BROKER)
    overrides = {
        "log_cleaner_backoff_ms": "50",
        "offsets_topic_num_partitions": "1",
        "transaction_state_log_num_partitions": "1",
        "transaction_state_log_min_isr": "1",
        "group_consumer_max_session_timeout_ms": str(LONG_MS),
        "group_consumer_session_timeout_ms": str(LONG_MS),
    }
    with Cluster(tmp_path_factory.mktemp("compacted"), roles, **overrides) as made:
        configs = [CreatableTopicConfig(key, value) for key, value in COMPACTED.items()]
        for topic in (STATES, OFFSETS):
            made.create_topic(topic, [COORDINATORS], configs=configs)
        made.create_topic("far", [[OTHER]])
        yield made


class History:
    """The clients' work before the kill, and its continuation after it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.producers = {name: self.producer(name) for name in IDS}
        self.classic_member = ""
        self.consumer_member: tuple[str, int] = ("", 0)

    def producer(self, name: str) -> Producer:
        timeout_ms = 600_000
        settings = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": name, "log_level": 0}
        made = Producer(settings | {"transaction.timeout.ms": timeout_ms})
        made.init_transactions(DEADLINE_S)
        return made

    # ---- requests to coordinators

    def ask(self, key: str, key_type: int, request: Message, version: int) -> Any:
        """Returns the coordinator's response; None while there is no coordinator."""
        found = coordinator_of(self.cluster.bootstrap, key, key_type)
        if found is None:
            return None
        with WireClient(f"{found.host}:{found.port}") as client:
            return client.call(request, version)

    def asked(self, key: str, key_type: int, request: Message, version: int, error: Any) -> Any:
        """Retries until `error` of the response is NONE: coordinators load, and move."""

        def found() -> Any:
            response = self.ask(key, key_type, request, version)
            return response if response is not None and error(response) == ErrorCode.NONE else None

        return self.cluster.until(found, f"{type(request).__name__} for {key}")

    def transaction(self, name: str) -> Any:
        request = DescribeTransactionsRequest([name])
        one = self.asked(
            name, TRANSACTION, request, 0, lambda reported: reported.transaction_states[0].error_code
        ).transaction_states[0]
        places = [(place.topic, place.partitions) for place in one.topics]
        return one.transaction_state, one.producer_id, one.producer_epoch, one.transaction_timeout_ms, places

    def commit(self, group: str, offset: int) -> Any:
        places = [OffsetCommitRequestTopic(name="far", partitions=[OffsetCommitRequestPartition(0, offset)])]
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=places)
        return self.asked(group, GROUP, request, 8, lambda reported: reported.topics[0].partitions[0].error_code)

    def committed(self, group: str) -> int:
        asked = OffsetFetchRequestGroup(group_id=group, topics=[OffsetFetchRequestTopics("far", partition_indexes=[0])])
        request = OffsetFetchRequest(groups=[asked])
        reported = self.asked(group, GROUP, request, 8, lambda reported: reported.groups[0].error_code)
        offset: int = reported.groups[0].topics[0].partitions[0].committed_offset
        return offset

    def described(self, group: str) -> Any:
        reported = self.asked(
            group, GROUP, DescribeGroupsRequest([group]), 5, lambda reported: reported.groups[0].error_code
        )
        one = reported.groups[0]
        members = [(member.member_id, member.member_assignment) for member in one.members]
        return one.group_state, one.protocol_type, one.protocol_data, members

    def reported(self) -> dict[str, Any]:
        """Returns all state of the history that the coordinators report."""
        return {
            "transactions": {name: self.transaction(name) for name in IDS},
            "offsets": {group: self.committed(group) for group in COMMITTED},
            "classic": self.described("classic"),
        }

    # ---- actions

    def in_transaction(self, name: str, value: str, group: str = "", offset: int = 0) -> Producer:
        """Begins a transaction and writes a record; with `group`, commits an offset in it."""
        producer = self.producers[name]
        producer.begin_transaction()
        producer.produce("far", value, partition=0)
        if group:
            consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": group, "log_level": 0})
            place = TopicPartition("far", 0, offset)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), DEADLINE_S)
            consumer.close()
        producer.flush(DEADLINE_S)
        return producer

    def do_what_ends(self) -> None:
        for offset in range(COMMITTED["plain"] + 1):
            self.commit("plain", offset)
        for offset, commits in ((3, True), (9, False), (COMMITTED["in transactions"], True)):
            producer = self.in_transaction("done", f"done {offset}", "in transactions", offset)
            (producer.commit_transaction if commits else producer.abort_transaction)(DEADLINE_S)
        self.in_transaction("aborted", "aborted").abort_transaction(DEADLINE_S)
        self.commit("pending", COMMITTED["pending"])
        self._join_classic()
        self._join_consumer()

    def _join_classic(self) -> None:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest("classic", LONG_MS, LONG_MS, "", None, "consumer", protocols)
        self.classic_member = self.asked("classic", GROUP, request, 3, lambda reported: reported.error_code).member_id
        assignments = [SyncGroupRequestAssignment(self.classic_member, b"what it is given")]
        sync = SyncGroupRequest("classic", 1, self.classic_member, assignments=assignments)
        self.asked("classic", GROUP, sync, 2, lambda reported: reported.error_code)

    def _join_consumer(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            "consumer", "", 0, rebalance_timeout_ms=LONG_MS, subscribed_topic_names=["far"], topic_partitions=[]
        )
        reported = self.asked("consumer", GROUP, request, 0, lambda reported: reported.error_code)
        self.consumer_member = reported.member_id, reported.member_epoch

    def leave_open(self) -> None:
        """Leaves one transaction open, with offsets, and one transaction with a decided but incomplete commit."""
        self.in_transaction("open", "open", "pending", 11)
        prepared = self.in_transaction("prepared", "prepared")
        self.cluster.nodes[OTHER].pause()
        prepared.commit_transaction(DEADLINE_S)
        assert self.transaction("prepared")[0] == "PrepareCommit"

    # ---- compaction

    def compact(self, *topics: str) -> None:
        """Waits until all replicas have compacted all records written so far."""
        ends = {topic: self._end(topic) for topic in topics}

        def is_clean() -> bool:
            self.commit("filler", 1)
            request = InitProducerIdRequest("filler", 60_000)
            self.asked("filler", TRANSACTION, request, 4, lambda reported: reported.error_code)
            checkpoints = [
                find_offsets(str(self.cluster.nodes[node_id].data_dir), CLEANER_OFFSETS).offsets
                for node_id in COORDINATORS
                if self.cluster.nodes[node_id].is_running
            ]
            return all(found.get((topic, 0), 0) >= end for found in checkpoints for topic, end in ends.items())

        self.cluster.until(is_clean, f"{ends} are compacted")

    def _end(self, topic: str) -> int:
        ask = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        )
        with WireClient(leader_of(self.cluster.bootstrap, topic, 0)) as client:
            found: int = client.call(ask, 7).topics[0].partitions[0].offset
            return found

    def records_of(self, topic: str, *, below: int) -> tuple[Counter[bytes], int]:
        """Returns the number of records of each key, and the number of markers."""
        keys: Counter[bytes] = Counter()
        markers = 0
        for header, records in read_batches(self.cluster.bootstrap, topic, 0):
            if header.base_offset >= below:
                break
            if header.is_control:
                markers += len(records)
            else:
                keys.update(record.key or b"" for record in records)
        return keys, markers

    # ---- after the kill

    def fail_over(self) -> None:
        """Kills the leader of both topics; the other broker then leads."""
        leaders = {self.cluster.partitions(topic)[0].leader_id for topic in (STATES, OFFSETS)}
        for leader in leaders:
            self.cluster.nodes[leader].kill()
        if len(leaders) == len(COORDINATORS):
            for leader in leaders:
                self.cluster.nodes[leader].start()

    def is_whole(self) -> bool:
        found = [self.cluster.partitions(topic).get(0) for topic in (STATES, OFFSETS)]
        return all(one is not None and len(one.isr_nodes) == len(COORDINATORS) for one in found)

    def go_on(self) -> None:
        """Asserts that both members continue in their generation and epoch."""
        beat = HeartbeatRequest("classic", 1, self.classic_member)
        self.asked("classic", GROUP, beat, 4, lambda reported: reported.error_code)
        member_id, epoch = self.consumer_member
        request = ConsumerGroupHeartbeatRequest("consumer", member_id, epoch)
        reported = self.asked("consumer", GROUP, request, 0, lambda reported: reported.error_code)
        assert reported.member_epoch == epoch


def read(cluster: Cluster, isolation: str = "read_committed") -> list[str]:
    seen = []
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "isolation.level": isolation}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition("far", 0, 0)])
    while (message := consumer.poll(DEADLINE_S)) is not None and not is_end_of_partition(message):
        seen.append(message.value().decode())
    assert message is not None, "the end was not reached"
    consumer.close()
    return seen


def test_transactions_and_groups_are_there_after_compaction_and_kill_9(cluster: Cluster) -> None:
    history = History(cluster)
    history.do_what_ends()
    ended = history._end(OFFSETS)
    history.compact(STATES, OFFSETS)
    # The first compaction removes the records of a transaction, a later one its marker: the first that finds no record sets
    # the marker's delete horizon, and one after the horizon removes it.

    def has_dropped_a_marker() -> bool:
        history.compact(STATES, OFFSETS)
        return history.records_of(OFFSETS, below=ended)[1] < 3

    cluster.until(has_dropped_a_marker, "a marker of an ended transaction is removed")
    keys, _ = history.records_of(OFFSETS, below=ended)
    assert max(keys.values()) == 1, "it is compacted"
    history.leave_open()
    history.compact(STATES)
    before = history.reported()
    assert before["offsets"] == COMMITTED
    states = {name: reported[0] for name, reported in before["transactions"].items()}
    assert states == {
        "done": "CompleteCommit",
        "aborted": "CompleteAbort",
        "open": "Ongoing",
        "prepared": "PrepareCommit",
    }
    for number in (1, 2):
        cluster.until(history.is_whole, "both replicas are in sync")
        history.fail_over()
        assert history.reported() == before, f"after kill {number}"
        history.go_on()
        for node_id in COORDINATORS:
            if not cluster.nodes[node_id].is_running:
                cluster.nodes[node_id].start()
        history.compact(STATES)

    cluster.nodes[OTHER].go_on()
    history.cluster.until(lambda: history.transaction("prepared")[0] == "CompleteCommit", "what was decided is done")
    history.producers["open"].commit_transaction(DEADLINE_S)
    assert history.committed("pending") == 11
    history.in_transaction("done", "done at last").commit_transaction(DEADLINE_S)
    assert sorted(read(cluster)) == sorted(["done 3", "done 5", "open", "prepared", "done at last"])
    history.producer("aborted")
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        history.in_transaction("aborted", "of one that was replaced").commit_transaction(DEADLINE_S)
