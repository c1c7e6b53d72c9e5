"""The decisions of a cleaning about one batch: which records stay, what a rewritten batch keeps, and when markers go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from odradek.protocol.records.batch import NO_TIMESTAMP, BatchHeader, TimestampType, check_crc, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.compaction.cleaning import CleanedTransactions, Cleaner, LastOfProducer, empty_batch, marker_type
from odradek.storage.compaction.offset_map import OffsetMap
from odradek.storage.segments.aborted import AbortedTransaction

NOW_MS = 5000
RETENTION_MS = 1000


def newest(**offsets: int) -> OffsetMap:
    """Returns a map of all records up to offset 99."""
    found = OffsetMap(10)
    for key, offset in offsets.items():
        assert found.put(key.encode(), offset)
    found.latest_offset = 99
    return found


def cleaner(
    found: OffsetMap | None = None,
    *aborted: AbortedTransaction,
    last_of_producers: Mapping[int, LastOfProducer] | None = None,
    end_offset: int = 1000,
) -> Cleaner:
    transactions = CleanedTransactions(aborted)
    return Cleaner(found or newest(), transactions, last_of_producers or {}, NOW_MS, RETENTION_MS, end_offset)


def clean(one: Cleaner, batch: bytes) -> bytes | None:
    cleaned = one.clean(read_header(batch), batch)
    return None if cleaned is None else bytes(cleaned)


def offsets(batch: bytes | None) -> list[int] | None:
    return None if batch is None else [record.offset for record in decode_batch(batch)]


def data(*records: tuple[int, str | None, bytes | None], **kind: Any) -> bytes:
    return encode_batch(
        [Record(offset, 10 * offset, None if key is None else key.encode(), value) for offset, key, value in records],
        **kind,
    )


# ---- records


@pytest.mark.parametrize(
    ("offset", "key", "newest_offset", "stays"),
    [
        (5, "a", 5, True),
        (5, "a", 4, True),
        (5, "a", 6, False),
        (5, "a", -1, True),
        (0, "a", 0, True),
        (0, "a", -1, True),
        (0, "a", 1, False),
        (99, "a", 100, False),
        (100, "a", 200, True),
        (99, None, 0, False),
        (100, None, 0, True),
    ],
)
def test_record_stays_unless_a_later_one_has_its_key(
    offset: int, key: str | None, newest_offset: int, stays: bool
) -> None:
    found = newest() if newest_offset < 0 else newest(a=newest_offset)
    assert offsets(clean(cleaner(found), data((offset, key, b"v")))) == ([offset] if stays else None)


@pytest.mark.parametrize(("horizon", "stays"), [(None, True), (NOW_MS - 1, False), (NOW_MS, False), (NOW_MS + 1, True)])
def test_tombstone_goes_from_its_delete_horizon_on(horizon: int | None, stays: bool) -> None:
    batch = data((5, "a", None), (6, "b", b"v"), delete_horizon=horizon)
    assert offsets(clean(cleaner(newest(a=5, b=6)), batch)) == ([5, 6] if stays else [6])


def test_first_cleaning_of_a_tombstone_sets_its_delete_horizon_and_later_ones_keep_it() -> None:
    one = cleaner(newest(a=5, b=6, c=7))
    cleaned = clean(one, data((5, "a", None), (6, "b", b"v"), (7, "c", None), leader_epoch=3))
    assert cleaned is not None
    header = read_header(cleaned)
    assert header.has_delete_horizon and header.base_timestamp == NOW_MS + RETENTION_MS
    assert [record.timestamp for record in decode_batch(cleaned)] == [50, 60, 70]
    assert clean(one, cleaned) == cleaned
    again = clean(cleaner(newest(a=5, b=66, c=7)), cleaned)
    assert again is not None and offsets(again) == [5, 7]
    assert read_header(again).base_timestamp == NOW_MS + RETENTION_MS, "it is not set anew"


def test_batch_of_which_all_records_stay_is_not_written_anew() -> None:
    batch = data((5, "a", b"v"), (6, "b", b"v"))
    view = memoryview(batch)
    assert cleaner(newest(a=5, b=6)).clean(read_header(batch), view) is view
    assert not read_header(batch).has_delete_horizon


@pytest.mark.parametrize("log_append_time", [None, 777])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_rewritten_batch_keeps_everything_but_its_records(log_append_time: int | None, codec: Compression) -> None:
    batch = data(
        (5, "a", b"1"), (6, "b", b"2"), (9, "c", b"3"), base_offset=4, last_offset=12, leader_epoch=3, producer_id=0,
        producer_epoch=0, base_sequence=0, transactional=True, compression=codec, log_append_time=log_append_time,
    )  # fmt: skip
    before = read_header(batch)
    cleaned = clean(cleaner(newest(a=50, b=6, c=9)), batch)
    assert cleaned is not None and check_crc(cleaned, 0, read_header(cleaned)) is None
    after = read_header(cleaned)
    assert offsets(cleaned) == [6, 9] and after.record_count == 2 and not after.has_delete_horizon
    kept = ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence",
            "compression", "is_transactional", "is_control", "timestamp_type", "max_timestamp")  # fmt: skip
    assert {name: getattr(after, name) for name in kept} == {name: getattr(before, name) for name in kept}
    times = [777, 777] if log_append_time else [60, 90]
    assert [record.timestamp for record in decode_batch(cleaned)] == times


# ---- batches that must stay


@pytest.mark.parametrize(
    ("last", "stays"),
    [
        (None, False),
        (LastOfProducer(5, 0), True),
        (LastOfProducer(4, 0), False),
        (LastOfProducer(6, 0), False),
        (LastOfProducer(-1, 0), False),
    ],
)
def test_last_batch_of_a_producer_stays_without_records(last: LastOfProducer | None, stays: bool) -> None:
    batch = data((5, "a", b"v"), producer_id=0, producer_epoch=0, base_sequence=7, transactional=True, leader_epoch=2)
    cleaned = clean(cleaner(newest(a=50), last_of_producers={} if last is None else {0: last}), batch)
    assert offsets(cleaned) == ([] if stays else None)
    if cleaned is not None:
        before, after = read_header(batch), read_header(cleaned)
        assert after._replace(crc=0) == before._replace(
            crc=0, length=after.length, base_timestamp=NO_TIMESTAMP, record_count=0
        )
        assert len(cleaned) == after.size == 61 and check_crc(cleaned, 0, after) is None


@pytest.mark.parametrize(
    ("epoch", "last", "stays"), [(3, (-1, 3), True), (3, (-1, 4), False), (3, (1, 3), False), (3, (20, 3), True)]
)
def test_last_marker_of_a_producer_without_data_stays(epoch: int, last: tuple[int, int], stays: bool) -> None:
    marker = with_horizon(marker_of(True, 20, producer_id=0, epoch=epoch), NOW_MS)
    cleaned = clean(cleaner(last_of_producers={0: LastOfProducer(*last)}), marker)
    assert offsets(cleaned) == ([] if stays else None)


@pytest.mark.parametrize(("end_offset", "stays"), [(6, True), (7, False), (5, False)])
def test_last_batch_of_the_cleaned_range_stays_without_records(end_offset: int, stays: bool) -> None:
    cleaned = clean(cleaner(newest(a=50), end_offset=end_offset), data((5, "a", b"v")))
    assert offsets(cleaned) == ([] if stays else None)


def test_batch_without_records_keeps_the_kind_of_its_time_and_its_largest_one() -> None:
    batch = data((5, "a", b"v"), (6, "a", b"v"), log_append_time=777, compression=Compression.GZIP, delete_horizon=9)
    header = read_header(empty_batch(read_header(batch)))
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME and header.max_timestamp == 777
    assert header.compression is Compression.NONE and not header.has_delete_horizon
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 6, 0)


# ---- transactions


def marker_of(committed: bool, offset: int, producer_id: int = 0, epoch: int = 0) -> bytes:
    return encode_end_transaction(
        committed, base_offset=offset, timestamp=10, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0
    )


def with_horizon(marker: bytes, horizon: int) -> bytes:
    header = read_header(marker)
    return encode_batch(
        decode_batch(marker), producer_id=header.producer_id, producer_epoch=header.producer_epoch, transactional=True,
        control=True, delete_horizon=horizon,
    )  # fmt: skip


def of_producer(producer_id: int, *records: tuple[int, str | None, bytes | None]) -> bytes:
    return data(*records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def header_of(producer_id: int, first: int, last: int | None = None) -> BatchHeader:
    return read_header(of_producer(producer_id, *((offset, "a", b"v") for offset in range(first, (last or first) + 1))))


def end(transactions: CleanedTransactions, kind: ControlType | None, offset: int, producer_id: int = 0) -> bool:
    """Meets a marker. Returns whether it may go."""
    return transactions.meet_marker(read_header(marker_of(True, offset, producer_id)), kind)


ABORTED = AbortedTransaction(0, 10, 20, 21)


@pytest.mark.parametrize(
    ("producer_id", "first", "last", "is_aborted"),
    [(0, 10, 10, True), (0, 8, 10, True), (0, 8, 9, False), (0, 11, 12, True), (1, 11, 12, False)],
)
def test_batch_is_of_the_aborted_transaction_that_began_by_its_end(
    producer_id: int, first: int, last: int, is_aborted: bool
) -> None:
    assert CleanedTransactions([ABORTED]).meet_data(header_of(producer_id, first, last)) == is_aborted


def test_batch_outside_of_transactions_is_never_aborted() -> None:
    plain = read_header(data((11, "a", b"v"), producer_id=0, producer_epoch=0, base_sequence=0))
    assert not CleanedTransactions([ABORTED]).meet_data(plain)


def test_marker_of_an_abort_goes_once_no_batch_of_its_transaction_is_left() -> None:
    met, unmet = CleanedTransactions([ABORTED]), CleanedTransactions([ABORTED])
    assert met.meet_data(header_of(0, 10)) and met.meet_data(header_of(0, 12))
    assert met.take_retained() == []
    assert not end(met, ControlType.ABORT, 20) and end(unmet, ControlType.ABORT, 20)
    assert met.take_retained() == [ABORTED] and met.take_retained() == []
    assert unmet.take_retained() == []
    assert not met.meet_data(header_of(0, 22)), "the next transaction is another one"
    assert end(met, ControlType.ABORT, 30), "it has no entry, and nothing is left of it"


def test_aborted_transactions_of_one_producer_follow_one_another() -> None:
    second = AbortedTransaction(0, 22, 30, 31)
    transactions = CleanedTransactions([second, ABORTED])
    assert transactions.meet_data(header_of(0, 12)) and not end(transactions, ControlType.ABORT, 20)
    assert transactions.meet_data(header_of(0, 22)) and not end(transactions, ControlType.ABORT, 30)
    assert transactions.take_retained() == [ABORTED, second]
    assert not transactions.meet_data(header_of(0, 32))


def test_marker_of_a_commit_goes_once_no_batch_of_its_transaction_is_left() -> None:
    transactions = CleanedTransactions([])
    assert end(transactions, ControlType.COMMIT, 5)
    assert not transactions.meet_data(header_of(0, 6))
    assert end(transactions, ControlType.COMMIT, 7, producer_id=1), "the batch is another producer's"
    assert not end(transactions, ControlType.COMMIT, 8)
    assert end(transactions, ControlType.COMMIT, 9), "that transaction has no batches"


def test_control_batch_without_records_may_go_and_one_of_another_type_may_not() -> None:
    transactions = CleanedTransactions([])
    assert end(transactions, None, 5) and not end(transactions, ControlType.LEADER_CHANGE, 6)


@pytest.mark.parametrize(
    ("horizon", "has_batches", "result"),
    [
        (None, True, "same"),
        (None, False, "sets its horizon"),
        (NOW_MS - 1, False, "goes"),
        (NOW_MS, False, "goes"),
        (NOW_MS + 1, False, "same"),
        (NOW_MS, True, "same"),
    ],
)
def test_marker_without_a_transaction_goes_from_its_delete_horizon_on(
    horizon: int | None, has_batches: bool, result: str
) -> None:
    one = cleaner()
    if has_batches:
        one.transactions.meet_data(header_of(0, 10))
    marker = marker_of(True, 20)
    marker = marker if horizon is None else with_horizon(marker, horizon)
    cleaned = clean(one, marker)
    if result == "goes":
        assert cleaned is None
    elif result == "same":
        assert cleaned == marker
    else:
        assert cleaned == with_horizon(marker, NOW_MS + RETENTION_MS)


def test_records_of_an_aborted_transaction_go_at_once() -> None:
    one = cleaner(newest(a=11), ABORTED)
    assert clean(one, of_producer(0, (11, "a", b"v"))) is None
    assert offsets(clean(one, of_producer(1, (11, "a", b"v")))) == [11]


def test_type_of_a_marker_is_that_of_its_record() -> None:
    for committed, kind in ((True, ControlType.COMMIT), (False, ControlType.ABORT)):
        marker = marker_of(committed, 5)
        assert marker_type(read_header(marker), marker) is kind
        emptied = empty_batch(read_header(marker))
        assert marker_type(read_header(emptied), emptied) is None


# ---- offsets of keys


def test_map_of_offsets_takes_known_keys_when_it_is_full() -> None:
    found = OffsetMap(2)
    assert found.newest(b"a") == -1 and found.latest_offset == -1
    assert found.put(b"a", 0) and found.put(b"b", 1) and not found.put(b"c", 2) and found.put(b"a", 3)
    assert [found.newest(key) for key in (b"a", b"b", b"c")] == [3, 1, -1] and len(found) == 2


def test_map_of_offsets_holds_one_key_at_least() -> None:
    for capacity in (-1, 0, 1):
        found = OffsetMap(capacity)
        assert found.put(b"a", 0) and not found.put(b"b", 1)
