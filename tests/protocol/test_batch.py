"""Record batch headers: reading, validation and patching, and invalid input."""

from __future__ import annotations

import random
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.control_records import EndTxnMarker
from odradek.protocol.records import batch
from odradek.protocol.records.batch import (
    HEADER_BYTES,
    MAX_SEQUENCE,
    TimestampType,
    check_batch,
    check_crc,
    iter_headers,
    patch,
    read_header,
    seal,
    set_log_append_time,
    write_header,
)
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlRecord, ControlType, control_type, decode_control, encode_control
from odradek.protocol.records.end_markers import encode_end_transaction, plain_marker
from odradek.protocol.records.errors import (
    BatchError,
    CorruptBatch,
    InvalidBatch,
    OldMessageFormat,
    UnsupportedCompression,
)
from odradek.protocol.records.record import Record, decode_batch, encode_batch

from tests.harness.examples import examples

RECORDS = [Record(7 + i, 1000 + i, b"key", b"value %d" % i, [("h", b"x"), ("n", None)]) for i in range(3)]
BATCH = encode_batch(RECORDS, producer_id=4, producer_epoch=1, base_sequence=0x7FFFFFFF, leader_epoch=2)


def test_header_matches_encoded_batch() -> None:
    header = read_header(BATCH)
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 9, 10)
    assert (header.size, header.record_count, header.leader_epoch, header.magic) == (len(BATCH), 3, 2, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 0x7FFFFFFF)
    assert header.last_sequence == 1, "the sequence number wraps to zero"
    assert header.compression is Compression.NONE and header.timestamp_type is TimestampType.CREATE_TIME
    assert not (header.is_control or header.is_transactional or header.has_delete_horizon)


def test_patch_changes_offsets_and_keeps_crc_valid() -> None:
    buffer = bytearray(b"head" + BATCH)
    patch(buffer, 4, 1 << 40, 9)
    header = read_header(buffer, 4)
    check_batch(buffer, 4, header)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 9)
    assert [record.offset for record in decode_batch(buffer, 4)] == [(1 << 40) + i for i in range(3)]
    assert buffer[4 + 16 :] == BATCH[16:]


def test_log_append_time_sets_timestamp_of_every_record() -> None:
    buffer = bytearray(BATCH)
    header = set_log_append_time(buffer, 0, read_header(buffer), 55)
    assert header == read_header(buffer)
    check_batch(buffer, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in decode_batch(buffer)} == {55}


def test_iter_headers_yields_batches_until_incomplete_one() -> None:
    data = BATCH + BATCH + BATCH[:-1]
    assert [pos for pos, _ in iter_headers(data)] == [0, len(BATCH)]
    assert [pos for pos, _ in iter_headers(memoryview(data), len(BATCH))] == [len(BATCH)]
    assert list(iter_headers(BATCH[:40])) == []


def test_compacted_batch_keeps_offsets_and_may_be_empty() -> None:
    kept = encode_batch([RECORDS[1]], base_offset=7, last_offset=9)
    assert (read_header(kept).base_offset, read_header(kept).last_offset) == (7, 9)
    assert decode_batch(kept) == [RECORDS[1]]
    empty = encode_batch([], base_offset=7, last_offset=9, producer_id=4, producer_epoch=1, base_sequence=0)
    check_crc(empty, 0, read_header(empty))
    assert decode_batch(empty) == [] and read_header(empty).next_offset == 10


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_raise_old_message_format(magic: int) -> None:
    """The format in a log: offset, size, then CRC, magic, attributes, key, value."""
    old = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + bytes((magic,)) + bytes(17)
    with pytest.raises(OldMessageFormat, match=f"message format {magic}") as rejected:
        read_header(old)
    assert rejected.value.error_code is ErrorCode.INVALID_RECORD
    with pytest.raises(OldMessageFormat):
        list(iter_headers(old))
    with pytest.raises(OldMessageFormat):
        list(iter_headers(old + bytes(100)))


@pytest.mark.parametrize(
    ("damage", "error", "code"),
    [
        ({"magic": 3}, CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        ({"magic": -1}, CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        ({"length": 48}, CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        ({"length": -1}, CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        ({"length": len(BATCH)}, CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        ({"length": 0x7FFFFFFF}, CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        ({"record_count": 0}, InvalidBatch, ErrorCode.INVALID_RECORD),
        ({"record_count": -1}, InvalidBatch, ErrorCode.INVALID_RECORD),
        ({"record_count": 4}, InvalidBatch, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": -1}, InvalidBatch, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, UnsupportedCompression, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
    ids=str,
)
def test_invalid_header_raises(damage: dict[str, int], error: type[BatchError], code: ErrorCode) -> None:
    buffer = bytearray(BATCH)
    write_header(buffer, 0, read_header(buffer)._replace(**damage))
    seal(buffer, 0, len(buffer))
    with pytest.raises(error) as rejected:
        check_batch(buffer, 0, read_header(buffer))
    assert type(rejected.value) is error and rejected.value.error_code is code


def test_every_flipped_bit_under_crc_is_detected() -> None:
    for at in range(17, len(BATCH)):
        for bit in range(8):
            flipped = bytearray(BATCH)
            flipped[at] ^= 1 << bit
            with pytest.raises(BatchError):
                check_batch(flipped, 0, read_header(flipped))


def test_batch_truncated_at_any_byte_raises() -> None:
    for end in range(len(BATCH)):
        with pytest.raises(CorruptBatch):
            check_batch(BATCH[:end], 0, read_header(BATCH[:end]))
        with pytest.raises(BatchError):
            decode_batch(BATCH[:end])


@pytest.mark.parametrize("compression", Compression, ids=lambda codec: codec.name)
def test_damaged_records_decode_or_raise_in_limited_time_and_memory(compression: Compression) -> None:
    """The CRC is valid: damage by a broken or hostile producer."""
    rng = random.Random(compression)
    honest = encode_batch(RECORDS * 20, base_offset=7, last_offset=66, compression=compression)
    for _ in range(examples(400)):
        data = bytearray(honest)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(HEADER_BYTES - 4, len(data))] = rng.randrange(256)
        started = time.process_time()
        tracemalloc.start()
        try:
            decode_batch(data, limit=1 << 20)
        except BatchError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < 8 << 20
        assert time.process_time() - started < 2


@pytest.mark.parametrize("count", [1, 60, 61, 1000, 0x7FFFFFFF, -1])
def test_wrong_record_count_raises(count: int) -> None:
    data = bytearray(encode_batch(RECORDS * 20, base_offset=7, last_offset=66))
    write_header(data, 0, read_header(data)._replace(record_count=count))
    if count == 60:
        assert len(decode_batch(data)) == 60
    else:
        with pytest.raises(InvalidBatch):
            decode_batch(data)


@pytest.mark.parametrize(
    "body",
    [
        b"\x0c\0\0\0\1\1\0\0",  # ends before its length
        b"\x0e\0\0\0\1\1\0",  # is longer than the batch
        b"\x0c\0\0\0\1\1\1",  # a negative header count
        b"\x0c\0\0\0\1\1\x02",  # a missing header
        b"\x10\0\0\0\1\1\x02\1\1",  # a header with a null key
        b"\x0c\0\0\0\x7e\1\0",  # a key longer than the record
        b"\x0c\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",  # an endless varint
        b"\x0b\0\0\0\1\1\0",  # a negative length
        b"",
    ],
)
def test_invalid_record_raises(body: bytes) -> None:
    data = bytearray(BATCH[:HEADER_BYTES] + body)
    header = read_header(data)._replace(
        length=len(data) - batch.LOG_OVERHEAD, record_count=1, last_offset_delta=0, attributes=0
    )
    write_header(data, 0, header)
    with pytest.raises(InvalidBatch):
        decode_batch(data)


def test_control_record_ends_transaction() -> None:
    for committed, kind in ((True, ControlType.COMMIT), (False, ControlType.ABORT)):
        data = encode_end_transaction(
            committed, base_offset=5, timestamp=1, producer_id=4, producer_epoch=1, coordinator_epoch=8
        )
        header = read_header(data)
        check_batch(data, 0, header)
        assert header.is_control and header.is_transactional and header.base_sequence == -1
        (record,) = decode_batch(data)
        assert decode_control(record.key, record.value) == ControlRecord(kind, EndTxnMarker(coordinator_epoch=8))


@pytest.mark.parametrize("committed", [True, False])
def test_marker_has_the_bytes_of_a_batch_encoded_by_its_parts(committed: bool) -> None:
    key, value = encode_control(ControlType(committed), EndTxnMarker(coordinator_epoch=8))
    numbers = {"producer_id": 1 << 40, "producer_epoch": 3, "leader_epoch": 6}
    made = encode_end_transaction(committed, base_offset=5, timestamp=1 << 41, coordinator_epoch=8, **numbers)
    assert made == encode_batch([Record(5, 1 << 41, key, value)], transactional=True, control=True, **numbers)
    assert plain_marker(read_header(made), memoryview(made)) == (not committed, 8)


def test_marker_in_another_form_is_not_plain() -> None:
    kind, message = ControlType.COMMIT, EndTxnMarker(coordinator_epoch=8)
    key, value = encode_control(kind, message)
    settings: dict[str, Any] = {"producer_id": 4, "producer_epoch": 1, "transactional": True, "control": True}
    plain = Record(0, 1, key, value)
    batches = [
        encode_batch([plain, Record(1, 1, key, value)], **settings),
        encode_batch([replace(plain, headers=[("h", b"")])], **settings),
        encode_batch([replace(plain, value=value + b"more")], **settings),
        encode_batch([replace(plain, key=b"\0\1" + key[2:])], **settings),
        encode_batch([replace(plain, value=b"\0\1" + value[2:])], **settings),
        encode_batch([replace(plain, key=b"\0\0\0\x63")], **settings),
        encode_batch([plain], **settings, log_append_time=9),
        encode_batch([plain], **{**settings, "transactional": False}),
    ]
    assert [plain_marker(read_header(one), one) for one in batches] == [None] * len(batches)


def test_unknown_control_type_is_skipped_and_newer_version_is_decoded() -> None:
    assert decode_control(b"\0\0\0\x63", b"whatever") is None
    key, value = encode_control(ControlType.COMMIT, EndTxnMarker(coordinator_epoch=8))
    assert decode_control(b"\0\1" + key[2:], b"\0\1" + value[2:] + b"more") == ControlRecord(
        ControlType.COMMIT, EndTxnMarker(coordinator_epoch=8)
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0"),
        (b"\0\0\0\1", b"\0\0\0"),
    ],
)
def test_invalid_control_record_raises(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidBatch):
        if control_type(key) is not None:
            decode_control(key, value)


@pytest.mark.parametrize(
    ("first", "second"), [(0, 0), (0, 5), (5, 0), (-1, (1 << 63) - 1), (1, -(1 << 63)), (-(1 << 63), (1 << 63) - 1)]
)
def test_timestamps_that_differ_by_more_than_a_long_come_back_as_in_java(first: int, second: int) -> None:
    """Their difference has 64 bits: the sum is right again, modulo 2^64."""
    records = [Record(0, first, None, b"a"), Record(1, second, None, b"b")]
    found = [record.timestamp for record in decode_batch(encode_batch(records))]
    assert [(one - expected) % (1 << 64) for one, expected in zip(found, (first, second), strict=True)] == [0, 0]


@pytest.mark.parametrize(
    ("sequence", "delta", "last"),
    [
        (-1, 4, -1),
        (0, 0, 0),
        (0, 4, 4),
        (5, 4, 9),
        (MAX_SEQUENCE, 0, MAX_SEQUENCE),
        (MAX_SEQUENCE, 1, 0),
        (MAX_SEQUENCE - 1, 4, 2),
    ],
)
def test_last_sequence_follows_the_greatest_with_zero(sequence: int, delta: int, last: int) -> None:
    data = encode_batch([Record(0, 5, None, b"v")], last_offset=delta, base_sequence=sequence)
    header = read_header(data)
    assert (header.base_sequence, header.last_offset, header.last_sequence) == (sequence, delta, last)


@pytest.mark.parametrize("horizon", [None, 0, 7])
def test_batch_with_a_delete_horizon_has_it_as_its_base_timestamp(horizon: int | None) -> None:
    header = read_header(encode_batch([Record(3, 5, None, b"v")], delete_horizon=horizon))
    assert header.has_delete_horizon is (horizon is not None)
    assert header.base_timestamp == (5 if horizon is None else horizon) and header.max_timestamp == 5
