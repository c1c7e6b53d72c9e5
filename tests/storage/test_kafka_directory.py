"""Odradek opens and continues a data directory written by Apache Kafka, and Kafka opens it again.

All tests share one history. Kafka 4.3.1 writes with every codec and with transactions, over several segments, and is
stopped. It writes again and is killed. The fixture keeps a copy of the directory from both moments.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.directory import LogDirectory, checkpoints_of
from odradek.storage.files.checkpoints import RECOVERY_POINTS, write_offsets
from odradek.storage.files.partition_metadata import read_topic_id
from odradek.storage.log.config import LogConfig
from odradek.storage.segments.timestamps import LargeBatch

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka

pytestmark = pytest.mark.oracle

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: The minimum of segment.bytes in Kafka 4.
SEGMENT_BYTES = 1 << 20
TOOL = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES)


class History:
    """The written records, topic -> offset -> (key, value), and the offsets of aborted transactions."""

    def __init__(self, kafka):
        self.kafka = kafka
        self.written = {}
        self.aborted = set()

    def produce(self, topic, count, start, **settings):
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 5, **settings})
        self._send(producer, topic, count, start)
        assert producer.flush(30) == 0

    def _send(self, producer, topic, count, start):
        offsets = self.written.setdefault(topic, {})
        found = []

        def delivered(error, message):
            assert error is None, error
            offsets[message.offset()] = message.key(), message.value()
            found.append(message.offset())

        for number in range(start, start + count):
            value = b"%d " % number + bytes(number * i % 251 for i in range(300)) * 3
            producer.produce(topic, key=b"k%d" % (number % 13), value=value, on_delivery=delivered)
            producer.poll(0)
        return found

    def transactions(self, topic, transactional_id):
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(30)
        for number in range(6):
            producer.begin_transaction()
            offsets = self._send(producer, topic, 5, number * 5)
            assert producer.flush(30) == 0
            if number % 2:
                producer.abort_transaction(30)
                self.aborted.update(offsets)
            else:
                producer.commit_transaction(30)


@pytest.fixture(scope="module")
def history(java_tools, tmp_path_factory):
    """Yields the records, and copies of Kafka's directory after a clean stop (`clean`) and after kill -9 (`killed`)."""
    place = tmp_path_factory.mktemp("kafka-directory")
    kafka = ApacheKafka(place / "kafka", {"log.segment.bytes": str(SEGMENT_BYTES)})
    history = History(kafka)
    try:
        kafka.start()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        topics = [NewTopic(name, 1, 1) for name in (*CODECS, "transactions", "empty")]
        for future in admin.create_topics(topics).values():
            future.result(30)
        for codec in CODECS:
            history.produce(codec, 2500, 0, **{"compression.type": codec, "enable.idempotence": codec == "lz4"})
        history.transactions("transactions", "tx")
        kafka.stop()
        shutil.copytree(kafka.data_dir, place / "clean")
        history.clean = {topic: dict(written) for topic, written in history.written.items()}  # type: ignore[attr-defined]
        kafka.start()
        for codec in CODECS:
            history.produce(codec, 500, 2500, **{"compression.type": codec})
        kafka.kill()
        shutil.copytree(kafka.data_dir, place / "killed")
        history.place = place  # type: ignore[attr-defined]
        yield history
    finally:
        kafka.kill()


def open_logs(path):
    directory = LogDirectory.open(path)
    logs = {
        (replica.topic, replica.partition): directory.open_log(replica.topic, replica.partition, CONFIG, now_ms=0)
        for replica in directory.replicas()
    }
    return directory, logs


def records_of(logbook, log):
    data = logbook.read_all(log)
    return {
        record.offset: (record.key, record.value)
        for position, header in iter_headers(data)
        if not header.is_control
        for record in decode_batch(data, position)
    }


def offset_for_timestamp(log, timestamp):
    """Returns the record found by its timestamp, even in a large batch, which the broker searches on a thread."""
    try:
        return log.offset_for_timestamp(timestamp)
    except LargeBatch as large:
        return large.find()


def check_contents(logbook, logs, written):
    for topic, expected in written.items():
        log = logs[topic, 0]
        assert records_of(logbook, log) == expected
        for offset in list(expected)[::97]:
            assert log.read(offset, 1).size
        first_of_last_segment = log.active.base_offset
        found = offset_for_timestamp(log, 0)
        assert found is not None
        assert found.offset == 0
        assert first_of_last_segment < log.log_end_offset


def test_a_directory_that_kafka_closed_is_opened_without_a_scan(history, logbook, tmp_path):
    shutil.copytree(history.place / "clean", tmp_path / "data")
    directory, logs = open_logs(tmp_path / "data")
    assert directory.had_clean_shutdown
    assert directory.previous_broker_epoch > 0
    assert directory.meta_properties.node_id == 1
    assert directory.directory_id is not None
    check_contents(logbook, logs, history.clean)
    # The number of segments depends on how the client filled its batches.
    files = sorted(path.name for path in (history.place / "clean" / "none-0").glob("*.log"))
    assert [f"{segment.base_offset:020}.log" for segment in logs["none", 0].segments] == files
    assert len(files) > 1
    assert {log.recovered_bytes for log in logs.values()} == {0}
    for log in logs.values():
        assert (
            log.recovery_point == log.log_end_offset == directory.checkpoints.recovery_points[log.topic, log.partition]
        )
        assert read_topic_id(log.path) is not None
    assert (logs["empty", 0].log_end_offset, logs["empty", 0].size) == (0, 0)
    # The producer states from Kafka's snapshots.
    (idempotent,) = logs["lz4", 0].producers.by_id.values()
    assert idempotent.last_sequence == 2499
    transactions = logs["transactions", 0]
    aborted = transactions.aborted_transactions(0, transactions.log_end_offset)
    assert len(aborted) == 3
    assert all(any(a.first_offset <= offset < a.last_offset for a in aborted) for offset in history.aborted)
    assert transactions.last_stable_offset(transactions.log_end_offset) == transactions.log_end_offset
    directory.close()


def test_a_directory_of_a_kafka_that_was_killed_is_recovered(history, logbook, tmp_path):
    shutil.copytree(history.place / "killed", tmp_path / "data")
    directory, logs = open_logs(tmp_path / "data")
    assert not directory.had_clean_shutdown
    check_contents(logbook, logs, history.written)
    (idempotent, *_) = logs["lz4", 0].producers.by_id.values()
    assert idempotent.last_sequence == 2499
    transactions = logs["transactions", 0]
    assert len(transactions.aborted_transactions(0, transactions.log_end_offset)) == 3
    directory.close()


def append_ours(log, count):
    """Appends batches of every codec, beyond the end of a segment."""
    for number in range(count):
        base = log.log_end_offset
        records = [Record(base + i, 1_800_000_000_000 + i, b"ours", b"%d" % number + b"o" * 9000) for i in range(3)]
        log.append(encode_batch(records, leader_epoch=log.epochs.latest, compression=number % 5), None, 0)


def test_kafka_goes_on_with_a_directory_that_we_wrote_to(history, logbook, tools):
    """Odradek recovers the directory of a killed Kafka, appends, and stops cleanly. Then Kafka starts on it."""
    path = history.kafka.data_dir
    directory, logs = open_logs(path)
    expected = {}
    for codec in CODECS:
        log = logs[codec, 0]
        append_ours(log, 50)
        expected[codec] = records_of(logbook, log)
        assert len(expected[codec]) == 3150
    directory.close_logs(logs.values(), 0)
    checkpoints = checkpoints_of(logs.values())
    write_offsets(directory.path, RECOVERY_POINTS, checkpoints.recovery_points)
    directory.mark_clean_shutdown(directory.previous_broker_epoch)
    directory.close()
    files = sorted(
        str(file)
        for codec in CODECS
        for file in (path / f"{codec}-0").iterdir()
        if file.suffix in (".log", ".index", ".timeindex", ".snapshot")
    )
    dumped = tools.run(TOOL, "--files", ",".join(files), "--deep-iteration").checked()
    assert "isvalid: false" not in dumped.out
    assert "ismatch" not in dumped.err

    logged = history.kafka.log_file.stat().st_size
    history.kafka.start()
    complaints = Path(history.kafka.log_file).read_text()[logged:]
    assert "Found a corrupted index" not in complaints
    # Kafka's node may register with its own controller before that is active, and tries again.
    errors = [line for line in complaints.splitlines() if " ERROR " in line and " ERROR ControllerApis: " not in line]
    assert not errors
    for codec in CODECS:
        assert consumed(history.kafka.bootstrap, codec, len(expected[codec])) == expected[codec]
    history.produce("none", 10, 9000)


def consumed(bootstrap, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = {}
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count} records of {topic}"
        assert not message.error(), message.error()
        found[message.offset()] = message.key(), message.value()
    consumer.close()
    return found


def test_kafka_and_odradek_take_turns_on_one_directory(history):
    """Kills each broker and starts the other, which continues with the records, group offsets and metadata."""
    kafka = history.kafka
    kafka.kill()
    odradek = OdradekProcess(history.place / "odradek", {**SINGLE_NODE, "node.id": "1"})
    shutil.move(kafka.data_dir, odradek.data_dir)
    try:
        odradek.start()
        assert consumed_by_group(odradek.bootstrap, "transactions", "g") == 30 - len(history.aborted)
        Producing(odradek.bootstrap).values("transactions", [b"from odradek %d" % number for number in range(20)])
        admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
        admin.create_topics([NewTopic("made-by-odradek", 2, 1, config={"segment.ms": "1234567"})])[
            "made-by-odradek"
        ].result(30)
        Producing(odradek.bootstrap).values("made-by-odradek", [b"first"])
        odradek.kill()
        shutil.move(odradek.data_dir, kafka.data_dir)
        kafka.start()
        assert consumed_by_group(kafka.bootstrap, "transactions", "g") == 20, "from where the group was"
        assert consumed_by_group(kafka.bootstrap, "made-by-odradek", "g") == 1
        resource = ConfigResource(ConfigResource.Type.TOPIC, "made-by-odradek")
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        assert admin.describe_configs([resource])[resource].result(30)["segment.ms"].value == "1234567"
        Producing(kafka.bootstrap).values("made-by-odradek", [b"second"])
        kafka.kill()
        shutil.move(kafka.data_dir, odradek.data_dir)
        odradek.start()
        assert consumed_by_group(odradek.bootstrap, "made-by-odradek", "g") == 1
        assert "ERROR" not in odradek.log_file.read_text()
    finally:
        odradek.kill()


class Producing:
    def __init__(self, bootstrap):
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._errors = []

    def values(self, topic, values):
        for value in values:
            self._producer.produce(topic, value, on_delivery=lambda error, _: error and self._errors.append(error))
        assert self._producer.flush(30) == 0
        assert not self._errors


def consumed_by_group(bootstrap, topic, group):
    """Reads and commits the records that a group has not read yet. Returns their number."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    partitions = len(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.subscribe([topic])
    count, ended = 0, set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
        else:
            count += 1
    consumer.commit(asynchronous=False)
    consumer.close()
    return count
