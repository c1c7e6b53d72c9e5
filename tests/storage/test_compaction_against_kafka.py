"""Compaction compared with Apache Kafka's: repeated cleanings of the same log leave the same batches and content.

Apache Kafka writes the log. Its directory is copied, and Odradek continues on the copy. From then on both brokers get the
same requests, and compact at the same times. `ODRADEK_COMPACTION_SEED` selects another history.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records.batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    iter_headers,
)
from odradek.protocol.records.record import decode_batch, encoded_size
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, find_offsets
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.segments.aborted import read_aborted

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient
from tests.storage.compacted_history import SEGMENT_MS, CompactedHistory

pytestmark = pytest.mark.oracle

SEED = int(os.environ.get("ODRADEK_COMPACTION_SEED", "1"))
DEADLINE_S = 60
PROPERTIES = {
    **SINGLE_NODE,
    "node.id": "1",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.io.max.bytes.per.second": "1e12",
    # The index files of active segments have this size, and are copied.
    "log.index.size.max.bytes": "65536",
    # The transactions have no coordinator.
    "transaction.partition.verification.enable": "false",
}
WHAT = ("batches", "aborted", "producers", "read_committed", "read_uncommitted")
NEVER, AT_ONCE = "1.0", "0.0"
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": NEVER,
    "segment.ms": str(SEGMENT_MS),
    "segment.bytes": str(1 << 20),
    "message.timestamp.after.max.ms": str((1 << 63) - 1),
}
#: SOON: the next cleaning removes tombstones and markers. LATE: they stay.
SOON, LATE = {"delete.retention.ms": "1"}, {"delete.retention.ms": str(86_400_000)}
TOPICS = {
    "soon": COMPACTED | SOON,
    "late": COMPACTED | LATE,
    "large": COMPACTED | SOON,
    "open": COMPACTED | LATE,
    "appended": COMPACTED | SOON,
}


class Cleaned:
    """A broker with its logs after each cleaning."""

    def __init__(self, broker, histories):
        self.broker = broker
        self.histories = histories
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        #: The times before and after each cleaning, in milliseconds.
        self.times = []

    def segments(self, topic):
        """Returns the base offset of each segment; the last segment is active."""
        return sorted(int(path.stem) for path in (self.broker.data_dir / f"{topic}-0").glob("*.log"))

    def clean(self):
        """Runs one cleaning of everything that may be cleaned."""
        ends = {(one.topic, 0): self._end_of_range(one) for one in self.histories}
        began = time.time() * 1000
        self.configure("min.cleanable.dirty.ratio", AT_ONCE)
        eventually(lambda: self._cleaned_to().items() >= ends.items(), what=f"all is clean up to {ends}", deadline_s=60)
        self.configure("min.cleanable.dirty.ratio", NEVER)
        self.times.append((began, time.time() * 1000))

    def _end_of_range(self, history):
        """Returns the base offset of the active segment, or of an earlier one that contains the last stable offset."""
        bases = self.segments(history.topic)
        return max(base for base in bases if base <= max(history.last_stable_offset, bases[0]))

    def _cleaned_to(self):
        return find_offsets(str(self.broker.data_dir), CLEANER_OFFSETS).offsets

    def configure(self, key, value, topics=None):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resources = [
            ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
            for name in topics or [one.topic for one in self.histories]
        ]
        for future in self.admin.incremental_alter_configs(resources).values():
            future.result(DEADLINE_S)

    def aborted(self, topic):
        place = PartitionDirectory(str(self.broker.data_dir / f"{topic}-0"))
        return {base: found for base in self.segments(topic) if (found := read_aborted(place, base))}

    def batches(self, topic, copied_at):
        """Returns the batches in readable form, without fields that the broker itself has set since the copy."""
        found = []
        for base in self.segments(topic):
            data = (self.broker.data_dir / f"{topic}-0" / f"{base:020}.log").read_bytes()
            for position, header in iter_headers(data):
                found.append(self._words(topic, base, data, position, header, copied_at))
        return found

    def _words(self, topic, segment, data, position, header, copied_at):
        is_later = header.base_offset >= copied_at
        is_own_time = is_later and header.is_control
        decoded = decode_batch(data, position, header)
        records = [
            (one.offset, None if is_own_time else one.timestamp, one.key, one.value, one.headers) for one in decoded
        ]
        base_timestamp = None if is_own_time else header.base_timestamp
        if header.has_delete_horizon:
            self._check_horizon(topic, header)
            self._check_size(header, decoded)
            base_timestamp = "a horizon"
        return {
            "segment": segment,
            "offsets": (header.base_offset, header.last_offset),
            "attributes": header.attributes,
            "leader epoch": None if is_later else header.leader_epoch,
            "producer": (header.producer_id, header.producer_epoch, header.base_sequence),
            "base timestamp": base_timestamp,
            "max timestamp": None if is_own_time else header.max_timestamp,
            "records": records,
            # Codecs compress to different bytes, and each broker sets its own delete horizon.
            "size": None if header.compression or header.has_delete_horizon else header.size,
        }

    def _check_size(self, header, decoded):
        """Checks the size, which depends on the horizon: timestamps are varints relative to it."""
        of_batch = {"base_offset": header.base_offset, "base_timestamp": header.base_timestamp}
        wanted = HEADER_BYTES + sum(encoded_size(one, **of_batch) for one in decoded)
        assert header.compression or header.size == wanted, header

    def _check_horizon(self, topic, header):
        retention_ms = int(TOPICS[topic]["delete.retention.ms"])
        assert any(
            began + retention_ms - 1 <= header.base_timestamp <= ended + retention_ms for began, ended in self.times
        )

    def producers(self, topic):
        with WireClient(self.broker.bootstrap) as client:
            reported = (
                client.call(DescribeProducersRequest([DescribeProducersRequestTopic(topic, [0])]), 0)
                .topics[0]
                .partitions[0]
            )
        assert reported.error_code == 0, reported
        return sorted(
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in reported.active_producers
        )

    def is_led(self, topic):
        ask = ListOffsetsTopic(topic, [ListOffsetsPartition(partition_index=0, timestamp=-1)])
        with WireClient(self.broker.bootstrap) as client:
            reported = client.call(ListOffsetsRequest(replica_id=-1, topics=[ask]), 7)
        return reported.topics[0].partitions[0].error_code == 0

    def read(self, isolation):
        """Returns the records that a consumer gets: topic -> (offset, key, value, headers)."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(one.topic, 0, 0) for one in self.histories])
        seen, ended = {one.topic: [] for one in self.histories}, set()
        while len(ended) < len(self.histories):
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"{isolation}: {ended} of the topics were read to their ends"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.topic())
            else:
                seen[message.topic()].append((message.offset(), message.key(), message.value(), message.headers()))
        consumer.close()
        return seen

    def start_without_snapshots(self, copied_at):
        """Starts the broker without producer snapshots. Returns its state."""
        for snapshot in self.broker.data_dir.glob("*-0/*.snapshot"):
            snapshot.unlink()
        self.broker.start()
        eventually(lambda: all(map(self.is_led, TOPICS)), what="the topics are led")
        return self.state(copied_at)

    def state(self, copied_at):
        topics = [one.topic for one in self.histories]
        return {
            "batches": {name: self.batches(name, copied_at[name]) for name in topics},
            "aborted": {name: self.aborted(name) for name in topics},
            "producers": {name: self.producers(name) for name in topics},
            "read_committed": self.read("read_committed"),
            "read_uncommitted": self.read("read_uncommitted"),
        }


@pytest.fixture(scope="module")
def executed(java_tools, tmp_path_factory):
    """Yields the states of both brokers after each of three cleanings, the brokers, and the end offsets at the copy."""
    place = tmp_path_factory.mktemp("compaction")
    histories = [CompactedHistory(name, SEED, 120_000 if name == "large" else 60) for name in TOPICS]
    with ExitStack() as stack:
        kafka = stack.enter_context(ApacheKafka(place / "kafka", PROPERTIES))
        theirs = Cleaned(kafka, histories)
        client = stack.enter_context(WireClient(kafka.bootstrap))
        for name, configs in TOPICS.items():
            make_topic(kafka.bootstrap, name, configs=configs)
        begin(theirs, client)
        odradek = OdradekProcess(place / "odradek", PROPERTIES)
        copy_while_it_rests(kafka, odradek)
        copied_at = {one.topic: one.end_offset for one in histories}
        stack.enter_context(odradek)
        ours = Cleaned(odradek, histories)
        clients = [client, stack.enter_context(WireClient(odradek.bootstrap))]
        rounds = []
        for number in range(3):
            if number:
                go_on(histories, clients)
            for one in (theirs, ours):
                one.clean()
            rounds.append((theirs.state(copied_at), ours.state(copied_at)))
        yield rounds, theirs, ours, copied_at


def begin(theirs, client):
    """Writes the first records, to Kafka only."""
    for one in theirs.histories:
        one.write([client], 2, 16)
        if one.topic == "open":
            one.end_all([client])
            one.begin_slowly([client])
        if one.topic == "appended":
            theirs.configure("message.timestamp.type", "LogAppendTime", [one.topic])
            one.write([client], 1, 16)
            theirs.configure("message.timestamp.type", "CreateTime", [one.topic])
            one.write([client], 1, 3)
        else:
            one.write([client], 2, 12)
        if one.topic != "open":
            one.end_all([client])


def go_on(histories, clients):
    for one in histories:
        one.write(clients, 1, 6)
        one.end_all(clients)
        one.write(clients, 1, 2)


def copy_while_it_rests(kafka, odradek):
    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        shutil.copytree(kafka.data_dir, odradek.data_dir)
    finally:
        os.kill(kafka.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def started_again(executed):
    """Kills both, and starts both on Odradek's directory without producer snapshots. Returns Kafka's and Odradek's state."""
    _, theirs, ours, copied_at = executed
    for one in (theirs, ours):
        one.broker.kill()
    shutil.rmtree(theirs.broker.data_dir)
    shutil.copytree(ours.broker.data_dir, theirs.broker.data_dir)
    theirs.times = ours.times
    return [one.start_without_snapshots(copied_at) for one in (theirs, ours)]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("what", WHAT)
def test_both_cleaners_leave_the_same(executed, what, topic, number):
    theirs, ours = (one[what][topic] for one in executed[0][number])
    assert ours == theirs


class Decided:
    """The contents of a topic after each of our cleanings, which must equal Kafka's."""

    def __init__(self, executed, topic):
        self.states = [{what: of_all[topic] for what, of_all in ours.items()} for _, ours in executed[0]]

    def batches(self, number):
        return self.states[number]["batches"]

    def markers(self, number):
        return {one["offsets"] for one in self.batches(number) if one["attributes"] & CONTROL_FLAG}

    def _tombstones(self, number):
        return {record[0]: record[2] for one in self.batches(number) for record in one["records"] if record[3] is None}

    def expired_tombstones(self, number):
        """Returns the offsets of tombstones that the next cleaning removed although no compacted record has their key."""
        after = self.batches(number + 1)
        active = after[-1]["segment"]
        keys = {record[2] for one in after if one["segment"] < active for record in one["records"]}
        gone = self._tombstones(number).keys() - self._tombstones(number + 1).keys()
        return {offset for offset in gone if self._tombstones(number)[offset] not in keys}

    def aborted(self, number):
        return sum(map(len, self.states[number]["aborted"].values()))


def test_the_cleaners_had_to_decide_all_that_there_is_to_decide(executed):
    soon, late, large, opened, appended = (Decided(executed, topic) for topic in TOPICS)
    assert any(one["producer"][0] >= 0 and not one["records"] for one in soon.batches(2)), "the last of a producer"
    assert soon.markers(0) - soon.markers(2)
    assert late.markers(0) <= late.markers(1) <= late.markers(2)
    assert soon.expired_tombstones(0) | soon.expired_tombstones(1)
    assert not late.expired_tombstones(0) | late.expired_tombstones(1)
    assert any(one["attributes"] & DELETE_HORIZON_FLAG for one in late.batches(0))
    assert soon.aborted(0) > soon.aborted(2)
    assert any(one.aborted(2) for one in (soon, late, large, opened, appended))
    assert len({one["segment"] for one in large.batches(0)}) > 3, "groups of segments are limited by their size"
    assert any(one["attributes"] & LOG_APPEND_TIME_FLAG and one["records"] for one in appended.batches(0))
    seen = [len(opened.states[0][isolation]) for isolation in ("read_committed", "read_uncommitted")]
    assert seen[0] + 10 < seen[1], "a transaction was open"


@pytest.mark.parametrize("topic", TOPICS)
def test_cleaned_log_without_its_checkpoint_equals_kafkas(executed, started_again, topic):
    before = executed[0][-1][1]
    theirs, ours = started_again
    for what in WHAT:
        assert ours[what][topic] == theirs[what][topic]
    for what in ("batches", "read_committed", "read_uncommitted"):
        assert ours[what][topic] == before[what][topic]
    with_data = [[one[:3] for one in state["producers"][topic] if one[2] >= 0] for state in (before, ours)]
    assert with_data[0] == with_data[1]
