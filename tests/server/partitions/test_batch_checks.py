"""The checks of one produced batch: the error code of each fault at its limit, and the changes before it is written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import HEADER_BYTES, read_header, seal
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.server.partitions import batch_validation, decompression
from odradek.server.partitions.append_rules import FOREVER_MS, AppendRules, Validation
from odradek.server.partitions.batch_validation import (
    MOST_RECORD_ERRORS,
    CheckedBatch,
    NotAtOnce,
    Rejected,
    RejectedUnseen,
    check_batch,
)

NOW_MS = 1_700_000_000_000
RULES = AppendRules(None, None, False, FOREVER_MS, 3_600_000, False, 1, 1 << 20, 1 << 30, 1 << 30)
#: The loop's work is counted by the time of a request, so each check has its own.
_times = count(NOW_MS)
APPEND_TIME, TRANSACTIONAL, CONTROL = 1 << 3, 1 << 4, 1 << 5


def batch(
    *stamps: int, codec: Compression = Compression.NONE, key: bytes | None = b"k", value: bytes = b"v", **kind: Any
) -> bytearray:
    records = [Record(number, NOW_MS + stamp, key, value) for number, stamp in enumerate(stamps or (0,))]
    return bytearray(encode_batch(records, compression=codec, **kind))


def with_field(data: bytearray, layout: str, at: int, value: int) -> bytearray:
    """Returns the batch with a field of its header changed, and a right CRC."""
    struct.pack_into(layout, data, at, value)
    seal(data, 0, len(data))
    return data


def with_flags(data: bytearray, flags: int) -> bytearray:
    return with_field(data, ">h", 21, struct.unpack_from(">h", data, 21)[0] | flags)


def checked(data: Any, rules: AppendRules = RULES, version: int = 9, *, at_once: bool = False) -> CheckedBatch:
    found = check_batch(data, rules, version, NOW_MS if not at_once else next(_times), "t-0", at_once)
    whole = bytes(found.buffer)
    assert read_header(whole) == found.header and seal(bytearray(whole), 0, len(whole)) == found.header.crc
    return found


def error_of(data: Any, rules: AppendRules = RULES, version: int = 9) -> Rejected:
    with pytest.raises(Rejected) as caught:
        check_batch(data, rules, version, NOW_MS, "t-0")
    return caught.value


def stamps_of(found: CheckedBatch) -> list[int]:
    return [record.timestamp - NOW_MS for record in decode_batch(found.buffer, 0)]


# ---- one batch, and no more


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(11), ErrorCode.INVALID_RECORD),
        (bytes(12), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qi", 0, 13), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qi", 0, 14), ErrorCode.INVALID_RECORD),
        (struct.pack(">qiib", 0, 14, 0, 3), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qiib", 0, 14, 0, 2), ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch() + struct.pack(">qi", 0, 13), ErrorCode.CORRUPT_MESSAGE),
        (batch() + struct.pack(">qiib", 0, 14, 0, 3), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_anything_but_one_batch_is_rejected_before_the_partition_is_looked_up(data: Any, error: ErrorCode) -> None:
    found = error_of(data)
    assert isinstance(found, RejectedUnseen) and found.error == error
    first = data is not None and not data.startswith(bytes(batch()[:20]))
    if error is ErrorCode.CORRUPT_MESSAGE:
        assert bool(found.message) == first, "Kafka has words for the first batch only"


def test_record_that_is_too_small_or_of_an_unknown_format_is_named() -> None:
    assert error_of(struct.pack(">qi", 0, 13)).message == "Record size 13 is less than the minimum record overhead (14)"
    assert error_of(struct.pack(">qiib", 0, 14, 0, 3)).message == "Invalid magic found in record: 3"


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 60])
def test_torn_batch_behind_a_whole_one_is_cut_off(size: int) -> None:
    whole = batch()
    found = checked(bytearray(whole + batch()[:size]))
    assert found.buffer == whole


@pytest.mark.parametrize(("version", "is_taken"), [(6, False), (7, True)])
def test_zstd_needs_version_7(version: int, is_taken: bool) -> None:
    data = batch(codec=Compression.ZSTD)
    if is_taken:
        assert checked(data, version=version).buffer == data
    else:
        found = error_of(data, version=version)
        assert isinstance(found, RejectedUnseen) and found.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert checked(batch(codec=Compression.LZ4), version=version)


# ---- the header


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: struct.pack(">q", 1) + bytes(data[8:]), ErrorCode.INVALID_RECORD),
        (lambda data: bytes(data[:-1]) + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (lambda data: with_field(data, ">i", 57, 0), ErrorCode.INVALID_RECORD),
        (lambda data: with_field(data, ">i", 57, 2), ErrorCode.INVALID_RECORD),
        (lambda data: with_field(data, ">i", 23, 1), ErrorCode.INVALID_RECORD),
        (lambda data: with_field(with_field(data, ">i", 57, 2), ">i", 23, 1), ErrorCode.INVALID_RECORD),
        (lambda data: with_field(with_field(data, ">i", 57, 0), ">i", 23, -1), ErrorCode.INVALID_RECORD),
        (lambda data: with_flags(data, CONTROL), ErrorCode.INVALID_RECORD),
        (lambda data: with_field(data, ">q", 43, 0), ErrorCode.INVALID_RECORD),
    ],
)
def test_header_that_disagrees_is_rejected(change: Callable[[bytearray], Any], error: ErrorCode) -> None:
    assert error_of(change(batch())).error == error


def test_sequence_zero_of_producer_zero_is_taken() -> None:
    data = batch(producer_id=0, producer_epoch=0, base_sequence=0)
    assert checked(data).buffer == data


@pytest.mark.parametrize("codec", Compression)
def test_size_is_compared_with_both_limits(codec: Compression) -> None:
    size = len(batch(codec=codec))
    for limit, error in (
        ("max_message_bytes", ErrorCode.MESSAGE_TOO_LARGE),
        ("segment_bytes", ErrorCode.RECORD_LIST_TOO_LARGE),
    ):
        assert checked(batch(codec=codec), replace(RULES, **{limit: size})).header.size == size
        assert error_of(batch(codec=codec), replace(RULES, **{limit: size - 1})).error == error


# ---- the records


@pytest.mark.parametrize("codec", Compression)
def test_records_must_fill_the_payload_exactly(codec: Compression) -> None:
    data = batch(0, 1)
    payload = bytes(data[HEADER_BYTES:])
    for broken, error in (
        (payload + b"\0", ErrorCode.INVALID_RECORD),
        (payload[:-1], ErrorCode.INVALID_RECORD),
        (b"\xff" * 20, ErrorCode.INVALID_RECORD if codec else ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        packed = compress(codec, broken, None) if codec else broken
        made = bytearray(data[:HEADER_BYTES] + packed)
        struct.pack_into(">i", made, 8, len(made) - 12)
        struct.pack_into(">h", made, 21, codec)
        seal(made, 0, len(made))
        assert error_of(bytearray(made)).error == error
        assert checked(bytearray(made), replace(RULES, validation=Validation.HEADER)).buffer == made


@pytest.mark.parametrize("codec", [one for one in Compression if one])
def test_payload_that_does_not_decompress_is_an_error_that_no_producer_retries(codec: Compression) -> None:
    data = with_flags(batch(), codec)
    assert error_of(data).error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_decompressed_records_have_a_limit_of_their_own() -> None:
    data = batch(value=bytes(1000), codec=Compression.GZIP)
    size = len(batch(value=bytes(1000))) - HEADER_BYTES - 2
    assert checked(data, replace(RULES, max_decompressed_bytes=size)).buffer == data
    assert error_of(data, replace(RULES, max_decompressed_bytes=size - 1)).error == ErrorCode.INVALID_RECORD
    plain = batch(value=bytes(1000))
    assert checked(plain, replace(RULES, max_decompressed_bytes=10)).buffer == plain


@pytest.mark.parametrize(
    ("validation", "codec", "is_seen"),
    [
        (Validation.HEADER, Compression.NONE, False),
        (Validation.FRAMING, Compression.NONE, True),
        (Validation.FRAMING, Compression.LZ4, False),
        (Validation.FULL, Compression.LZ4, True),
    ],
)
def test_level_of_validation_says_whose_records_are_seen(
    validation: Validation, codec: Compression, is_seen: bool
) -> None:
    rules = replace(RULES, validation=validation)
    data = with_field(batch(0, 7, codec=codec), ">q", 35, NOW_MS + 3)
    found = checked(bytearray(data), rules)
    assert found.header.max_timestamp == NOW_MS + (7 if is_seen else 3)
    keyless = batch(key=None, codec=codec)
    assert error_of(keyless, replace(rules, compact=True)).error == ErrorCode.INVALID_RECORD, "rules need the records"


# ---- the rules of the topic


def test_first_records_without_a_key_are_listed_by_kafkas_words() -> None:
    rules = replace(RULES, compact=True)
    records = [Record(number, NOW_MS, b"k" if number == 1 else None, b"v") for number in range(6)]
    found = error_of(bytearray(encode_batch(records)), rules)
    assert found.error == ErrorCode.INVALID_RECORD
    words = "Compacted topic cannot accept message without key in topic partition t-0"
    assert found.record_errors == [(number, words) for number in (0, 2, 3, 4, 5)]
    shown = ", ".join(f"RecordError(batchIndex={number}, message='{words}')" for number in (0, 2, 3))
    assert found.message == (
        "One or more records have been rejected due to 5 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    assert checked(batch(), rules)


@pytest.mark.parametrize(
    ("stamps", "late"),
    [((-100, 0, 50), []), ((-101, 0, 51), [0, 2]), ((0, -101), [1]), ((51,), [0]), ((-1 - NOW_MS, 0), [])],
)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_timestamps_stay_between_their_limits_or_are_not_set(
    stamps: tuple[int, ...], late: list[int], codec: Compression
) -> None:
    rules = replace(RULES, timestamp_before_max_ms=100, timestamp_after_max_ms=50)
    data = batch(*stamps, codec=codec)
    if not late:
        assert checked(data, rules).buffer == data
        return
    found = error_of(data, rules)
    assert found.error == ErrorCode.INVALID_TIMESTAMP
    assert found.message == "One or more records have been rejected due to invalid timestamp"
    assert found.record_errors == [
        (
            number,
            f"Timestamp {NOW_MS + stamps[number]} of message with offset {number} is out of range. "
            f"The timestamp should be within [{NOW_MS - 100}, {NOW_MS + 50}]",
        )
        for number in late
    ]


def test_record_without_a_key_and_out_of_time_has_the_errors_of_both() -> None:
    rules = replace(RULES, compact=True, timestamp_after_max_ms=50)
    records = [Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS + 51, b"k", b"v"), Record(2, NOW_MS + 51, None, b"v")]
    found = error_of(bytearray(encode_batch(records)), rules)
    assert found.error == ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in found.record_errors] == [0, 1, 2]
    assert [words.split()[0] for _, words in found.record_errors] == ["Compacted", "Timestamp", "Compacted"]


def test_rejected_records_are_listed_up_to_a_limit() -> None:
    rules = replace(RULES, compact=True)
    found = error_of(batch(*[0] * (MOST_RECORD_ERRORS + 5), key=None), rules)
    assert len(found.record_errors) == MOST_RECORD_ERRORS
    assert f"due to {MOST_RECORD_ERRORS + 5} record errors" in str(found.message)


def test_append_time_replaces_the_producers_times() -> None:
    rules = replace(RULES, log_append_time=True, timestamp_before_max_ms=10, timestamp_after_max_ms=10)
    for codec in (Compression.NONE, Compression.GZIP):
        found = checked(batch(-5000, 5000, codec=codec), rules)
        assert found.header.max_timestamp == NOW_MS and found.header.attributes == APPEND_TIME | codec
        assert stamps_of(found) == [0, 0]
    found = checked(batch(), replace(rules, validation=Validation.HEADER))
    assert found.header.max_timestamp == NOW_MS


@pytest.mark.parametrize("validation", Validation)
def test_producer_must_not_set_the_append_time(validation: Validation) -> None:
    data = with_flags(batch(0, 1), APPEND_TIME)
    found = error_of(data, replace(RULES, log_append_time=True, validation=validation))
    assert found.error == ErrorCode.INVALID_TIMESTAMP
    if validation is not Validation.HEADER:
        words = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
        assert found.record_errors == [(0, words), (1, words)]


def test_flag_of_the_append_time_goes_where_the_topic_has_the_producers_times() -> None:
    data = with_flags(batch(0, 1, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0), APPEND_TIME)
    found = checked(data)
    assert found.header.attributes == TRANSACTIONAL


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("claimed", [0, 6, 8, 900])
def test_wrong_largest_timestamp_is_corrected(codec: Compression, claimed: int) -> None:
    data = with_field(batch(7, 0, codec=codec), ">q", 35, NOW_MS + claimed)
    found = checked(data)
    assert found.header.max_timestamp == NOW_MS + 7 and stamps_of(found) == [7, 0]


@pytest.mark.parametrize(("future", "is_taken"), [(50, True), (51, False)])
def test_largest_timestamp_in_the_future_has_unseen_records_looked_at(future: int, is_taken: bool) -> None:
    rules = replace(RULES, validation=Validation.HEADER, timestamp_after_max_ms=50)
    if is_taken:
        assert checked(batch(future), rules).header.max_timestamp == NOW_MS + future
    else:
        assert error_of(batch(future), rules).error == ErrorCode.INVALID_TIMESTAMP
    assert checked(with_field(batch(3), ">q", 35, NOW_MS + 60), rules).header.max_timestamp == NOW_MS + 3


# ---- another codec, other offsets


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
@pytest.mark.parametrize("log_append_time", [False, True])
def test_topics_codec_replaces_the_producers(source: Compression, target: Compression, log_append_time: bool) -> None:
    rules = replace(RULES, compression=target, log_append_time=log_append_time)
    data = batch(7, 3, codec=source, transactional=True, producer_id=7, producer_epoch=1, base_sequence=5)
    found = checked(bytearray(data), rules)
    header = found.header
    assert header.attributes == target | TRANSACTIONAL | (APPEND_TIME if log_append_time else 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 1, 5, 2)
    assert header.max_timestamp == NOW_MS + (0 if log_append_time else 7)
    assert stamps_of(found) == ([0, 0] if log_append_time else [7, 3])
    assert (found.buffer is data or bytes(found.buffer) == bytes(data)) == (source is target and not log_append_time)


@pytest.mark.parametrize("target", [Compression.NONE, Compression.GZIP])
def test_batch_that_grows_by_its_new_codec_is_within_the_limit_or_rejected(target: Compression) -> None:
    source = Compression.LZ4 if target is Compression.NONE else Compression.NONE
    data = batch(value=bytes(500) if not target else b"", codec=source)
    size = checked(bytearray(data), replace(RULES, compression=target)).header.size
    assert size > len(data)
    assert checked(bytearray(data), replace(RULES, compression=target, max_message_bytes=size)).header.size == size
    found = error_of(bytearray(data), replace(RULES, compression=target, max_message_bytes=size - 1))
    assert found.error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("source", [Compression.NONE, Compression.GZIP])
def test_records_that_are_small_when_compressed_are_taken(source: Compression) -> None:
    data = batch(value=bytes(5000), codec=source)
    size = checked(bytearray(data), replace(RULES, compression=Compression.LZ4)).header.size
    assert size < 1000
    rules = replace(RULES, compression=Compression.LZ4, max_message_bytes=max(size, len(data)))
    found = checked(bytearray(data), rules)
    assert found.header.size == size and stamps_of(found) == [0]


def disordered(codec: Compression, numbers: int = 3) -> bytearray:
    """Returns a batch whose records have the offsets 5, 5 and so on."""
    pieces = b"".join(bytes(batch()[HEADER_BYTES:]) for _ in range(numbers))
    packed = compress(codec, pieces, None) if codec else pieces
    made = bytearray(batch(*[0] * numbers)[:HEADER_BYTES] + packed)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, codec)
    seal(made, 0, len(made))
    return made


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        (Compression.NONE, None, None),
        (Compression.NONE, Compression.NONE, None),
        (Compression.NONE, Compression.LZ4, None),
        (Compression.LZ4, Compression.NONE, None),
        (Compression.LZ4, Compression.GZIP, None),
        (Compression.LZ4, None, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Compression.LZ4, Compression.LZ4, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_other_offsets_are_numbered_anew(
    source: Compression, target: Compression | None, error: ErrorCode | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = replace(RULES, compression=target)
    if error is not None:
        assert error_of(disordered(source), rules).error == error
        return
    found = checked(disordered(source), rules)
    assert [record.offset for record in decode_batch(found.buffer, 0)] == [0, 1, 2]
    assert found.header.compression is (source if target is None else target)
    monkeypatch.setattr(batch_validation, "MOST_EXAMINED_RECORDS", 3)
    assert checked(disordered(source), rules)
    monkeypatch.setattr(batch_validation, "MOST_EXAMINED_RECORDS", 2)
    assert error_of(disordered(source), rules).error == ErrorCode.INVALID_RECORD


# ---- what the loop does at once


def test_loop_leaves_large_work_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, packed = batch(0, 1), batch(0, 1, codec=Compression.LZ4)
    rewritten = replace(RULES, compression=Compression.GZIP)
    assert checked(bytearray(plain), rewritten, at_once=True).header.compression is Compression.GZIP
    with pytest.raises(NotAtOnce):
        check_batch(bytearray(packed), rewritten, 9, next(_times), "t-0", True)
    assert checked(bytearray(packed), at_once=True).buffer == packed
    payload = len(plain) - HEADER_BYTES
    for module, name, limit, data, rules in (
        (batch_validation, "LARGE_BATCH_BYTES", len(plain), plain, RULES),
        (batch_validation, "RECOMPRESSED_AT_ONCE_BYTES", payload, plain, rewritten),
        (decompression, "OPENED_AT_ONCE_BYTES", len(packed) - HEADER_BYTES, packed, RULES),
        (decompression, "WALKED_AT_ONCE_RECORDS", 2, plain, RULES),
        (decompression, "WALKED_AT_ONCE_RECORDS", 2, packed, RULES),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, limit)
            assert checked(bytearray(data), rules, at_once=True)
            patched.setattr(module, name, limit - 1)
            with pytest.raises(NotAtOnce):
                check_batch(bytearray(data), rules, 9, next(_times), "t-0", True)
            assert checked(bytearray(data), rules), "a thread has no such limit"


@pytest.mark.parametrize(
    ("length", "shown"), [(b"\xff\xff\xff\xff", -1), (b"\x80\x00\x00\x00", -(1 << 31)), (b"\0\0\0\x0d", 13)]
)
def test_length_that_is_negative_or_too_small_is_corrupt_with_kafkas_words(length: bytes, shown: int) -> None:
    broken = batch()
    broken[8:12] = length
    with pytest.raises(Rejected, match=f"Record size {shown} is less than the minimum record overhead") as rejected:
        check_batch(broken, RULES, 9, next(_times), "t-0")
    assert rejected.value.error == ErrorCode.CORRUPT_MESSAGE


def test_loop_walks_so_many_records_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "WALKED_AT_ONCE_RECORDS", 5)
    now_ms = next(_times)
    for _ in range(2):
        check_batch(batch(0, 1), RULES, 9, now_ms, "t-0", True)
    with pytest.raises(NotAtOnce):
        check_batch(batch(0, 1), RULES, 9, now_ms, "t-0", True)
    check_batch(batch(0), RULES, 9, now_ms, "t-0", True)
    check_batch(batch(0, 1), RULES, 9, next(_times), "t-0", True)


def test_loop_lists_errors_of_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = replace(RULES, compact=True)
    monkeypatch.setattr(batch_validation, "WALKED_AT_ONCE_RECORDS", 200)
    with pytest.raises(Rejected):
        check_batch(batch(0, 0, key=None), rules, 9, next(_times), "t-0", True)
    with pytest.raises(NotAtOnce):
        check_batch(batch(0, 0, 0, key=None), rules, 9, next(_times), "t-0", True)


def test_loop_decompresses_so_many_bytes_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch(value=bytes(1000), codec=Compression.GZIP)
    monkeypatch.setattr(batch_validation, "AT_ONCE", decompression.OpenedAtOnce())
    monkeypatch.setattr(decompression, "DECOMPRESSED_AT_ONCE_BYTES", 2000)
    now_ms = next(_times)
    for _ in range(2):
        check_batch(bytearray(data), RULES, 9, now_ms, "t-0", True)
    with pytest.raises(NotAtOnce):
        check_batch(bytearray(data), RULES, 9, now_ms, "t-0", True)
    check_batch(bytearray(data), RULES, 9, next(_times), "t-0", True)
    with pytest.raises(NotAtOnce):
        check_batch(batch(value=bytes(2000), codec=Compression.GZIP), RULES, 9, next(_times), "t-0", True)
