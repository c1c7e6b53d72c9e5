"""The broker rejects contradictory batches before the log, with Apache Kafka's error code; accepted ones are readable.

Both brokers get every kind of `poisoned_batches.py` on topics of every kind. `STRICTER` lists the differences and reasons.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.records.batch import TRANSACTIONAL_FLAG
from odradek.protocol.records.compression import Compression

from compat_tests.batches import read_batches
from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka
from compat_tests.wire import WireClient
from tests.hostile.batch_readers import LAST, PYTHON_READERS
from tests.hostile.batch_sender import TOPICS, BatchSender
from tests.hostile.poisoned_batches import KINDS, ODD, batch, good_batch, record

pytestmark = pytest.mark.usefixtures("processes")

INVALID_RECORD, UNKNOWN = ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR

#: Apache accepts these, at least on some topics. Consumers other than Java's stop there.
STRICTER = {
    "attributes of a record of 255": "kafka-python and aiokafka read them as a varint and lose their place",
    "header key that is no text": "kafka-python and aiokafka raise UnicodeDecodeError",
    "key length of -2": "only -1 is null to librdkafka",
    "value length of -2": "only -1 is null to librdkafka",
    "header count of 2^31": "only Java drops the bits past the 32nd",
    "offset delta of overflowing varint": "only Java drops the bits past the 32nd",
    "record length of overflowing varint": "only Java drops the bits past the 32nd",
    "timestamp delta overflowing 64 bits": "only Java drops the bits past the 64th",
    "record length of -1": "Apache does not look at lengths in compressed batches, every consumer does",
    "record length of 0": "as above",
    "record length of 1": "as above",
    "record length of 2^31-1": "as above",
    "record length of 2^31": "as above",
    "record length of -2^31": "as above",
    "record length one short": "as above",
    "record length one long": "as above",
    "an empty lz4 block": "Java takes it for the end of the frame, liblz4 goes on",
    "bytes after the stream": "Java stops after an lz4 frame or a gzip member, Python raises an error",
}
#: Error codes more specific than Apache's UNKNOWN_SERVER_ERROR.
CLEARER = {
    "codec 5": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "codec 7": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
#: Apache rejects these when it compresses them again with another codec, and accepts them otherwise.
APACHE_CANNOT_REBUILD = {
    "timestamp delta of -2^62", "timestamp before 1970", "base timestamp of -2", "producer epoch of -1",
    "producer id of -2",
}  # fmt: skip
#: Apache's arithmetic overflows in the same millisecond, and it accepts the batch.
UNDECIDED = {"timestamp delta of -2^63"}

ALL = {**KINDS, **ODD}
CASES = [
    (topic, codec, name)
    for topic in TOPICS
    for codec in (Compression if topic == "plain" else (Compression.NONE, Compression.LZ4, Compression.ZSTD))
    for name in ALL
    if codec or name != "cut stream"
]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def last_batch() -> bytes:
    return batch(record(key=b"last", value=LAST), Compression.NONE, now_ms(), count=1)


def errors_of(bootstrap: str) -> dict[tuple[str, Compression, str], ErrorCode]:
    with BatchSender(bootstrap) as sender:
        sender.create_topics(TOPICS)
        return {case: sender.error(case[0], ALL[case[2]](case[1], now_ms())) for case in CASES}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path_factory.mktemp("odradek")) as running:
        yield running


@pytest.fixture(scope="module")
def ours(broker: OdradekProcess) -> dict[tuple[str, Compression, str], ErrorCode]:
    return errors_of(broker.bootstrap)


@pytest.mark.oracle
@pytest.mark.usefixtures("java_tools")
def test_every_kind_gets_apaches_error(ours: dict[tuple[str, Compression, str], ErrorCode], tmp_path: Path) -> None:
    with ApacheKafka(tmp_path) as kafka:
        theirs = errors_of(kafka.bootstrap)
    different = {case: (ours[case].name, theirs[case].name) for case in CASES if not is_as_wanted(case, ours, theirs)}
    assert different == {}


def is_as_wanted(
    case: tuple[str, Compression, str],
    ours: dict[tuple[str, Compression, str], ErrorCode],
    theirs: dict[tuple[str, Compression, str], ErrorCode],
) -> bool:
    mine, apaches, name = ours[case], theirs[case], case[2]
    if name in CLEARER:
        return mine is CLEARER[name] and apaches is UNKNOWN
    if name in STRICTER:
        return mine in (INVALID_RECORD, UNKNOWN)
    if name in UNDECIDED or (name in APACHE_CANNOT_REBUILD and apaches is UNKNOWN):
        return True
    return mine is apaches


def test_every_kind_is_refused_before_it_is_in_the_log(ours: dict[tuple[str, Compression, str], ErrorCode]) -> None:
    # In a topic with LogAppendTime the broker sets the timestamps.
    taken = {case[2] for case, error in ours.items() if case[2] in KINDS and not error and case[0] != "log-append-time"}
    assert taken == set()


def test_accepted_batches_can_be_read_to_the_end(
    broker: OdradekProcess, ours: dict[tuple[str, Compression, str], ErrorCode]
) -> None:
    with BatchSender(broker.bootstrap) as sender:
        for topic in TOPICS:
            assert not sender.error(topic, last_batch())
    for topic in TOPICS:
        records = [record for _, batch_records in read_batches(broker.bootstrap, topic, 0) for record in batch_records]
        assert [one.offset for one in records] == list(range(len(records)))
        assert len(records) > 50
        assert {read(broker.bootstrap, topic) for read in PYTHON_READERS} == {len(records)}


def test_largest_timestamp_is_corrected_to_that_of_the_records(broker: OdradekProcess) -> None:
    with BatchSender(broker.bootstrap) as sender:
        sender.create_topics({"corrected": {}})
        for codec in Compression:
            for claimed in (-(1 << 63), -1, 0, now_ms() - 5, (1 << 63) - 1):
                now = now_ms()
                response = sender.produce("corrected", good_batch(codec, now, max_timestamp=claimed))
                assert not response.error_code
                (header, records), *_ = read_batches(broker.bootstrap, "corrected", 0, response.base_offset)
                assert header.max_timestamp == now == max(one.timestamp for one in records)


def init_producer(client: WireClient, transactional_id: str | None) -> InitProducerIdResponse:
    """Returns a producer's id, once the coordinator has loaded its partition."""
    client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id or ""]), 4)
    request, deadline = InitProducerIdRequest(transactional_id, 9000), time.monotonic() + 60
    while (made := client.call(request, 4)).error_code:
        assert time.monotonic() < deadline, made
    return made


@pytest.mark.parametrize("name", ["count of 4", "null header key", "record length of -1", "rubbish payload"])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_kinds_are_refused_whatever_the_acks_and_the_producer(
    broker: OdradekProcess, name: str, codec: Compression
) -> None:
    topic = f"acks-{name.replace(' ', '-').replace('^', '')}-{codec.name}"
    with BatchSender(broker.bootstrap) as sender, WireClient(broker.bootstrap) as client:
        sender.create_topics({topic: {}})
        poisoned = ALL[name](codec, now_ms())
        expected = UNKNOWN if name == "rubbish payload" and codec else INVALID_RECORD
        assert [sender.error(topic, poisoned, acks=acks) for acks in (1, -1)] == [expected] * 2
        assert not sender.produce_unanswered(topic, poisoned), "a refusal without acks closes the connection"
        for transactional_id in (None, topic):
            made = init_producer(client, transactional_id)
            fields = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch, "base_sequence": 0}
            flags = 0 if transactional_id is None else TRANSACTIONAL_FLAG
            lying = good_batch(codec, now_ms(), count=4, flags=flags, **fields)
            assert sender.error(topic, lying, transactional_id=transactional_id, acks=-1) == INVALID_RECORD
            good = good_batch(codec, now_ms(), flags=flags, **fields)
            assert not sender.error(topic, good, transactional_id=transactional_id, acks=-1)
        assert [header.base_offset for header, _ in read_batches(broker.bootstrap, topic, 0)] == [0, 3]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("validation", "rejected"), [("header", (0, 0)), ("framing", (1, 0)), ("full", (1, 1))])
def test_validation_says_which_batches_are_opened(tmp_path: Path, validation: str, rejected: tuple[int, int]) -> None:
    with (
        OdradekProcess(tmp_path, {"odradek.produce.validation": validation}) as broker,
        BatchSender(broker.bootstrap) as sender,
    ):
        sender.create_topics({"t": {}, "compacted": {"cleanup.policy": "compact"}})
        lying = [ALL["null header key"](codec, now_ms()) for codec in (Compression.NONE, Compression.LZ4)]
        assert [sender.error("t", made) for made in lying] == [INVALID_RECORD * one for one in rejected]
        assert [sender.error("compacted", made) for made in lying] == [INVALID_RECORD] * 2, "it needs the keys anyway"
