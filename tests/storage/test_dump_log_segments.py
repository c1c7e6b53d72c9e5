"""Apache's DumpLogSegments reads Odradek's files in every state without an error."""

from __future__ import annotations

import random
import re
import struct

import pytest
from confluent_kafka import Consumer, Producer
from odradek.metadata.metadata_version import DEFAULT
from odradek.metadata.records import encode_record
from odradek.protocol.codec import encode
from odradek.protocol.internal import cluster_metadata as metadata
from odradek.protocol.internal import consumer_offsets as groups
from odradek.protocol.internal import transaction_state as transactions
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.storage.compaction.cleaning_job import finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.log.config import LogConfig

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE

TOOL = "org.apache.kafka.tools.DumpLogSegments"
SMALL = LogConfig(segment_bytes=30_000, index_interval_bytes=400)


#: Kafka 4.3.1 prints this for every segment that does not start at offset 0, its own included.
OF_EVERY_SEGMENT = re.compile(r"Non-consecutive offsets in \S*/0*(\d+)\.log\n  -1 is followed by \1\n")


class Dump:
    """Runs the tool on all files of a log, and checks that it reports no error."""

    def __init__(self, tools):
        self._tools = tools

    def __call__(self, logbook, *options, kinds=(".log", ".index", ".timeindex", ".txnindex", ".snapshot")):
        files = sorted(str(path) for path in logbook.path.iterdir() if path.suffix in kinds)
        assert files
        result = self._tools.run(TOOL, "--files", ",".join(files), *options).checked()
        assert OF_EVERY_SEGMENT.sub("", result.err) == ""
        for complaint in ("isvalid: false", "invalid bytes", "Ignoring"):
            assert complaint not in result.out
        return result.out

    def all_ways(self, logbook):
        """Checks each file whole, then with the check of a starting broker, then its index against the log."""
        out = self(logbook, "--deep-iteration", "--print-data-log")
        self(logbook, "--index-sanity-check", kinds=(".index", ".timeindex"))
        self(logbook, "--verify-index-only", kinds=(".index", ".timeindex"))
        return out


@pytest.fixture
def dump(tools):
    return Dump(tools)


def offsets_in(out):
    return [int(offset) for offset in re.findall(r"^\| offset: (\d+)", out, re.MULTILINE)]


def fill(logbook, log, count, seed=0, **kind):
    rng = random.Random(seed)
    for _ in range(count):
        values = [(b"k%d" % rng.randrange(20), rng.randbytes(rng.randrange(200))) for _ in range(3)]
        # Timestamps sometimes decrease, like those of producers.
        logbook.append(log, *values, at=logbook.now_ms + rng.randrange(100_000), **kind)


def test_a_log_of_every_codec_open_flushed_and_closed(logbook, dump):
    log = logbook.open(SMALL)
    for codec in Compression:
        fill(logbook, log, 60, codec, compression=codec)
    assert len(log.segments) > 2
    assert offsets_in(dump.all_ways(logbook)) == list(range(900))
    log.flush(logbook.now_ms)
    dump.all_ways(logbook)
    log.close(logbook.now_ms)
    assert offsets_in(dump.all_ways(logbook)) == list(range(900))


def test_a_recovered_log(logbook, dump):
    log = logbook.open(SMALL)
    fill(logbook, log, 300)
    with (logbook.path / f"{log.active.base_offset:020d}.log").open("ab") as file:
        file.write(b"\0" * 30 + b"torn")
    recovered = logbook.open(SMALL)
    assert recovered.recovered_bytes == 34
    assert offsets_in(dump.all_ways(logbook)) == list(range(900))


def test_a_truncated_log(logbook, dump):
    log = logbook.open(SMALL)
    fill(logbook, log, 300)
    log.truncate_to(600, logbook.now_ms)
    fill(logbook, log, 20, 1)
    log.close(logbook.now_ms)
    assert offsets_in(dump.all_ways(logbook)) == list(range(660))


def test_transactions_their_index_and_producer_snapshots(logbook, dump):
    log = logbook.open(LogConfig(segment_bytes=2500, index_interval_bytes=100))
    for number in range(12):
        producer = 1000 + number % 3
        kind = {"producer_id": producer, "producer_epoch": 1, "base_sequence": number // 3 * 2, "transactional": True}
        logbook.append(log, (b"a", b"x" * 200), (b"b", b"y" * 200), **kind)
        if number % 4 != 3:
            marker = encode_end_transaction(
                number % 2 == 0, base_offset=log.log_end_offset, timestamp=logbook.now_ms, producer_id=producer,
                producer_epoch=1, coordinator_epoch=2, leader_epoch=0,
            )  # fmt: skip
            log.append(marker, None, logbook.now_ms)
    log.close(logbook.now_ms)
    out = dump.all_ways(logbook)
    aborted = [
        f"producerId: {entry.producer_id} firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
        f"lastStableOffset: {entry.last_stable_offset}"
        for entry in log.aborted_transactions(0, log.log_end_offset)
    ]
    assert len(aborted) == 3
    assert all(line in out for line in aborted)
    assert out.count("endTxnMarker: COMMIT coordinatorEpoch: 2") == 6
    newest = out.rsplit(".snapshot\n", 1)[1]
    for producer in log.producers.by_id.values():
        line = next(line for line in newest.splitlines() if f"producerId: {producer.producer_id} " in line)
        open_since = producer.transaction_first_offset
        shown = f"OptionalLong[{open_since}]" if open_since >= 0 else "OptionalLong.empty"
        assert f"currentTxnFirstOffset: {shown}" in line
        if producer.batches:
            assert f"lastSequence: {producer.last_sequence} lastOffset: {producer.last_data_offset} " in line


def test_a_compacted_log_with_emptied_batches_and_delete_horizons(logbook, dump):
    log = logbook.open(LogConfig(segment_bytes=3000, index_interval_bytes=100, compact=True, file_delete_delay_ms=0))
    for number in range(100):
        kind = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number // 10} if number % 10 == 0 else {}
        logbook.append(log, (b"k%d" % (number % 7), b"v" * 100 if number % 3 else None), **kind)
    # The cleaning empties the producer's last batch, since its key has a newer record.
    cleaning = job(log, look(log, None, log.log_end_offset, logbook.now_ms), logbook.now_ms, 1000)
    assert finish(log, cleaning, cleaning.run(), logbook.now_ms)
    log.delete_scheduled(logbook.now_ms)
    log.close(logbook.now_ms)
    files = sorted(str(path) for path in logbook.path.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    result = dump._tools.run(TOOL, "--files", ",".join(files), "--deep-iteration").checked()
    # Compaction leaves gaps between offsets. The tool reports nothing else.
    assert re.sub(r"Non-consecutive offsets in .*\n|  -?\d+ is followed by \d+\n", "", result.err) == ""
    assert "isvalid: false" not in result.out
    assert f"deleteHorizonMs: OptionalLong[{logbook.now_ms + 86_400_000}]" in result.out
    dump(logbook, "--index-sanity-check", kinds=(".index", ".timeindex"))


def key_of(message):
    return struct.pack(">h", message.SCHEMA.key) + encode(message, 0)


def value_of(message, version):
    return struct.pack(">h", version) + encode(message, version)


def test_committed_offsets_and_groups(logbook, dump):
    log = logbook.open(SMALL)
    commit = (
        groups.OffsetCommitKey(group="g1", topic="orders", partition=3),
        groups.OffsetCommitValue(offset=42, leader_epoch=1, metadata="note", commit_timestamp=logbook.now_ms),
    )
    group = (
        groups.GroupMetadataKey(group="g1"),
        groups.GroupMetadataValue(protocol_type="consumer", generation=5, protocol="range", leader="m", members=[]),
    )
    logbook.append(log, (key_of(commit[0]), value_of(commit[1], 3)))
    logbook.append(log, (key_of(group[0]), value_of(group[1], 3)))
    logbook.append(log, (key_of(commit[0]), None))
    out = dump(logbook, "--offsets-decoder", kinds=(".log",))
    assert '"group":"g1","topic":"orders","partition":3' in out
    assert '"offset":42' in out
    assert '"generation":5' in out


def test_cluster_metadata(logbook, dump):
    log = logbook.open(SMALL)
    topic_id = bytes(range(16))
    for record in (
        metadata.FeatureLevelRecord(name="metadata.version", feature_level=DEFAULT),
        metadata.TopicRecord(name="orders", topic_id=topic_id),
        metadata.PartitionRecord(topic_id=topic_id, replicas=[1], isr=[1], leader=1),
    ):
        logbook.append(log, encode_record(record, DEFAULT))
    out = dump(logbook, "--cluster-metadata-decoder", kinds=(".log",))
    assert '"type":"TOPIC_RECORD"' in out
    assert '"name":"orders"' in out


def test_transaction_state(logbook, dump):
    log = logbook.open(SMALL)
    key = transactions.TransactionLogKey(transactional_id="tx")
    value = transactions.TransactionLogValue(
        producer_id=9, producer_epoch=1, transaction_timeout_ms=60_000, transaction_status=1, transaction_partitions=[]
    )
    logbook.append(log, (key_of(key), value_of(value, 0)))
    out = dump(logbook, "--transaction-log-decoder", kinds=(".log",))
    assert '"transactionalId":"tx"' in out


def test_the_directory_of_a_running_broker_and_of_one_that_was_killed(tmp_path, tools):
    broker = OdradekProcess(tmp_path, SINGLE_NODE)
    try:
        broker.start()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 2})
        for number in range(5000):
            producer.produce("orders", b"%d" % number + b"x" * 100, b"k%d" % (number % 9))
            producer.poll(0)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        assert consumer.poll(30) is not None
        consumer.commit(asynchronous=False)
        consumer.close()
        dump_all(tools, broker.data_dir)
        broker.kill()
        dump_all(tools, broker.data_dir)
    finally:
        broker.kill()


def dump_all(tools, data_dir):
    """Runs the tool on all files: once per topic, with its decoder, and once per check on all indexes."""
    decoders = {
        "__cluster_metadata-": ["--cluster-metadata-decoder"],
        "__consumer_offsets-": ["--offsets-decoder"],
        "orders-": [],
    }
    seen = ""
    for topic, decoder in decoders.items():
        logs = [str(path) for path in data_dir.glob(f"{topic}*/*") if path.suffix in (".log", ".checkpoint")]
        assert logs
        result = tools.run(TOOL, "--files", ",".join(logs), "--deep-iteration", *decoder).checked()
        assert OF_EVERY_SEGMENT.sub("", result.err) == ""
        assert "isvalid: false" not in result.out
        assert "invalid bytes" not in result.out
        seen += result.out
    indexes = [str(path) for path in data_dir.glob("*-*/*") if path.suffix in (".index", ".timeindex")]
    for check in ("--index-sanity-check", "--verify-index-only"):
        assert tools.run(TOOL, "--files", ",".join(indexes), check).checked().err == ""
    assert '"type":"PARTITION_RECORD"' in seen
    assert '"group":"g","topic":"orders"' in seen
    assert "baseOffset: " in seen
