"""Remote reads compared with reads of the local log that was copied, and hostile stores."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records.batch import iter_headers
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.index_cache import IndexCache
from odradek.tiers.indexes import parse_aborted, parse_indexes
from odradek.tiers.lineage import common_end
from odradek.tiers.object_names import object_name
from odradek.tiers.reading import (
    aborted_transactions,
    find_by_timestamp,
    next_segment_with_aborted,
    read_segment,
    segment_at,
    segment_ranges,
)
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata
from odradek.tiers.store import DamagedRemoteObject, PartType, RemoteStorageError

from tests.harness.examples import examples
from tests.tiers.harness.tiered_log import TieredLog, records_in, timestamp_at, value_at

_MIB = 1 << 20


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> TieredLog:
    folder = tmp_path_factory.mktemp("tiered")
    made = TieredLog(folder / "orders-0", FolderStore({"dir": str(folder / "tier")}))
    made.fill(400)
    assert len(made.copy_all()) > 10
    return made


@pytest.fixture(scope="module")
def indexes(tiered: TieredLog) -> IndexCache:
    return IndexCache(tiered.store, _MIB)


def end_of(tiered: TieredLog) -> int:
    """Returns the offset after the last one in the store."""
    return tiered.log.active.base_offset


def segment_of(tiered: TieredLog, offset: int) -> RemoteLogSegmentMetadata:
    found = segment_at(tiered.cache, tiered.log.epochs.entries(), offset)
    assert found is not None and found.start_offset <= offset <= found.end_offset
    return found


def test_ranges_of_segments_have_each_offset_once(tiered: TieredLog) -> None:
    epochs, end = tiered.log.epochs.entries(), end_of(tiered)
    found = segment_ranges(tiered.cache, epochs, 5, end + 100)
    assert [one.first_offset for one in found] == [5, *(one.next_offset for one in found[:-1])]
    assert found[-1].next_offset == end and len(found) > 10
    assert segment_ranges(tiered.cache, epochs, end, end + 1) == []


@pytest.mark.parametrize("max_bytes", [1, 300, _MIB])
def test_read_leaves_out_batches_of_another_history(tiered: TieredLog, indexes: IndexCache, max_bytes: int) -> None:
    """A leader with a longer log came after the one that copied the segment: it has other records from there on."""
    segment = next(one for one in tiered.cache.segments() if len(one.epochs) > 1)
    (first, start), (_, diverges), *_ = segment.epochs
    epochs = [(first, start), (99, diverges)]
    end = common_end(segment, epochs, start)
    assert end == diverges <= segment.end_offset
    read, offset = [], start
    while offset < end:
        found = read_segment(tiered.store, indexes, segment, offset, max_bytes, up_to_offset=end)
        read += [one.offset for one in records_in(found.data)]
        assert found.next_offset > offset
        offset = found.next_offset
    local = [one.offset for one in records_in(tiered.log.read(start, _MIB, up_to_offset=end).bytes())]
    assert read == local and offset == end


@pytest.mark.parametrize("max_bytes", [1, 300, 1_000, _MIB])
def test_remote_read_returns_the_bytes_of_a_local_read(tiered: TieredLog, indexes: IndexCache, max_bytes: int) -> None:
    for offset in range(end_of(tiered)):
        segment = segment_of(tiered, offset)
        remote = read_segment(tiered.store, indexes, segment, offset, max_bytes)
        local = tiered.log.read(offset, max_bytes, up_to_offset=segment.end_offset + 1)
        assert (remote.data, remote.next_offset) == (local.bytes(), local.next_offset), offset


def test_all_records_are_read_once_through_the_store(tiered: TieredLog, indexes: IndexCache) -> None:
    at, found = 0, []
    while at < end_of(tiered):
        piece = read_segment(tiered.store, indexes, segment_of(tiered, at), at, 700)
        assert piece.next_offset > at
        found += [(record.offset, record.value) for record in records_in(piece.data) if record.offset >= at]
        at = piece.next_offset
    local = list(records_in(tiered.local_bytes()))
    assert found == [(record.offset, value_at(record.offset)) for record in local] and len(found) > 300


def test_first_batch_over_the_limit_is_left_out_on_request(tiered: TieredLog, indexes: IndexCache) -> None:
    found = read_segment(tiered.store, indexes, segment_of(tiered, 0), 0, 10, min_one_batch=False)
    assert found == (b"", 0)


def test_offset_outside_the_store_has_no_segment(tiered: TieredLog) -> None:
    epochs = tiered.log.epochs.entries()
    assert segment_at(tiered.cache, epochs, end_of(tiered)) is None
    assert segment_at(tiered.cache, [(9, 0)], 5) is None, "another history"
    assert segment_at(tiered.cache, [], 5) is None


def test_record_by_time_is_that_of_the_local_log(tiered: TieredLog, indexes: IndexCache) -> None:
    for timestamp in range(timestamp_at(0) - 5, timestamp_at(end_of(tiered) - 4), 7):
        expected = tiered.log.offset_for_timestamp(timestamp)
        assert expected is not None
        segment = segment_of(tiered, expected.offset)
        assert find_by_timestamp(tiered.store, indexes, segment, timestamp, 0) == expected
    last = segment_of(tiered, end_of(tiered) - 1)
    assert find_by_timestamp(tiered.store, indexes, last, last.max_timestamp_ms + 1, 0) is None


def test_record_by_time_is_not_before_the_start_offset(tiered: TieredLog, indexes: IndexCache) -> None:
    segment = segment_of(tiered, 5)
    found = find_by_timestamp(tiered.store, indexes, segment, timestamp_at(0), 5)
    assert found is not None and found.offset == 5


@pytest.mark.parametrize("length", [1, 10, 100])
def test_aborted_transactions_are_those_of_the_local_log(tiered: TieredLog, indexes: IndexCache, length: int) -> None:
    epochs, seen = tiered.log.epochs.entries(), 0
    for offset in range(end_of(tiered) - length):
        found, is_complete = aborted_transactions(
            indexes, segment_of(tiered, offset), offset, offset + length,
            lambda after: next_segment_with_aborted(tiered.cache, epochs, after), epochs,
        )  # fmt: skip
        expected = tiered.log.aborted_transactions(offset, offset + length)
        if is_complete:
            assert found == expected
        else:
            assert found == expected[: len(found)] and all(
                one.last_offset >= end_of(tiered) for one in expected[len(found) :]
            )
        seen += len(found)
    assert seen > 20


# ---- hostile stores


class Changing:
    """A store whose parts of one type are changed."""

    def __init__(self, tiered: TieredLog, part: PartType, content: bytes) -> None:
        self._store, self._part, self._content = tiered.store, part, content

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        if self._part is PartType.LOG:
            return self._content[position : position + size]
        return self._store.fetch_log_segment(segment, position, size)

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        return self._content if part is self._part else self._store.fetch_index(segment, part, most_bytes)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_changed_log_is_damaged_at_its_position_or_read_right(tiered: TieredLog, data: st.DataObject) -> None:
    segment = segment_of(tiered, 50)
    right = tiered.store.fetch_log_segment(segment, 0, segment.size_bytes)
    changed = bytearray(right)
    at = data.draw(st.integers(0, len(right) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    store: Any = Changing(tiered, PartType.LOG, bytes(changed))
    offset = data.draw(st.integers(segment.start_offset, segment.end_offset))
    try:
        found = read_segment(store, IndexCache(store, _MIB), segment, offset, data.draw(st.integers(1, 3_000)))
    except DamagedRemoteObject as error:
        assert error.name == object_name(segment, PartType.LOG) and 0 <= error.position < len(right)
        return
    batch_at = max(position for position, _ in iter_headers(right) if position <= at)
    if at - batch_at >= 16 or 8 <= at - batch_at < 12:  # not the base offset, nor the epoch: the CRC covers neither
        assert right.find(found.data) >= 0, "only bytes that were written are returned"


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_changed_index_of_another_store_is_damaged_or_costs_no_record(tiered: TieredLog, data: st.DataObject) -> None:
    """Metadata without checksums, as Apache's stores write it: the indexes vouch for themselves."""
    segment = segment_of(tiered, 50)._replace(custom_metadata=None)
    part = data.draw(st.sampled_from([PartType.OFFSET_INDEX, PartType.TIME_INDEX]))
    right = bytearray(tiered.store.fetch_index(segment, part, _MIB))
    right[data.draw(st.integers(0, len(right) - 1))] ^= data.draw(st.integers(1, 255))
    store: Any = Changing(tiered, part, bytes(right))
    offset = data.draw(st.integers(segment.start_offset, segment.end_offset))
    try:
        found = read_segment(store, IndexCache(store, _MIB), segment, offset, 500)
    except DamagedRemoteObject as error:
        assert f"damaged at {error.position}" in str(error)
        return
    assert found == read_segment(tiered.store, IndexCache(tiered.store, _MIB), segment, offset, 500)


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        (bytes(7), "7 bytes are no entries of 8"),
        (b"\0\0\0\x05\0\0\x01\0" + b"\0\0\0\x04\0\0\x02\0", "at 8: 4 is out of order"),
        (b"\0\0\0\x04\0\0\x02\0" + b"\0\0\0\x05\0\0\x01\0", "at 8: 256 is out of order"),
        (b"\xff\0\0\x04\0\0\x02\0", "at 0: -16777212 is not within the segment"),
        (b"\0\0\x27\x10\0\0\x02\0", "at 0: 10000 is not within the segment"),
        (b"\0\0\0\x04\x70\0\0\0", "at 0: 1879048192 is not within the segment"),
    ],
)
def test_offset_index_that_no_segment_has_is_damaged(tiered: TieredLog, offsets: bytes, reason: str) -> None:
    with pytest.raises(DamagedRemoteObject, match=reason):
        parse_indexes(segment_of(tiered, 50), offsets, b"")


def test_preallocated_indexes_are_read_up_to_their_zeros(tiered: TieredLog) -> None:
    segment = segment_of(tiered, 50)
    parts = [tiered.store.fetch_index(segment, one, _MIB) for one in (PartType.OFFSET_INDEX, PartType.TIME_INDEX)]
    padded = [parts[0] + bytes(80), parts[1] + bytes(120)]
    assert parse_indexes(segment, *padded) == parse_indexes(segment, *parts)
    assert len(parse_indexes(segment, *parts).offsets) > 2
    assert parse_indexes(segment, b"", b"").position_of(segment.end_offset) == 0


def test_transaction_index_that_no_segment_has_is_damaged(tiered: TieredLog) -> None:
    segment = next(one for one in tiered.cache.segments() if not one.txn_index_empty)
    right = tiered.store.fetch_index(segment, PartType.TRANSACTION_INDEX, _MIB)
    assert len(parse_aborted(segment, right)) == len(right) // 34 > 0
    for wrong in (right[:-1], b"\0\x01" + right[2:], right + right, right[:2] + b"\xff" + right[3:]):
        with pytest.raises(DamagedRemoteObject):
            parse_aborted(segment, wrong)


@pytest.mark.parametrize("max_bytes", [1, 2_000])
@pytest.mark.parametrize("at", [7, 14])
def test_changed_base_offset_or_epoch_is_damaged(tiered: TieredLog, at: int, max_bytes: int) -> None:
    """The CRC does not cover these, but the next batch and the segment's epochs do."""
    segment = segment_of(tiered, 50)
    changed = bytearray(tiered.store.fetch_log_segment(segment, 0, segment.size_bytes))
    changed[at] += 1
    store: Any = Changing(tiered, PartType.LOG, bytes(changed))
    with pytest.raises(DamagedRemoteObject, match="no batch of the segment"):
        read_segment(store, IndexCache(store, _MIB), segment, segment.start_offset, max_bytes)


# ---- the cache of indexes


class Counting:
    """A store that counts fetches of indexes, and makes them wait."""

    def __init__(self, tiered: TieredLog) -> None:
        self._store = tiered.store
        self.fetched: list[tuple[bytes, PartType]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failures = 0

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        self.fetched.append((segment.segment_id, part))
        assert self.gate.wait(30)
        if self.failures:
            self.failures -= 1
            raise RemoteStorageError("no")
        return self._store.fetch_index(segment, part, most_bytes)


def test_index_is_fetched_once_and_the_least_recently_used_goes(tiered: TieredLog) -> None:
    store: Any = Counting(tiered)
    first, second, third = tiered.cache.segments()[:3]
    cache = IndexCache(store, 1 << 30)
    sizes = [cache.indexes(one).size_bytes for one in (first, second)]
    assert cache.size_bytes == sum(sizes) and cache.indexes(first) is cache.indexes(first)
    cache.resize(sum(sizes))
    cache.indexes(third)
    assert cache.size_bytes <= sum(sizes) and len(cache) == 2
    before = len(store.fetched)
    cache.indexes(first)
    assert len(store.fetched) == before, "the first one was used after the second"
    cache.indexes(second)
    assert len(store.fetched) == before + 2
    cache.remove([first.segment_id, second.segment_id, third.segment_id])
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_cache_that_is_too_small_for_an_index_returns_it_anyway(tiered: TieredLog) -> None:
    store: Any = Counting(tiered)
    cache = IndexCache(store, 1)
    assert len(cache.indexes(tiered.cache.segments()[0]).offsets) > 0
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_readers_of_a_missing_index_wait_for_one_fetch(tiered: TieredLog) -> None:
    store: Any = Counting(tiered)
    cache, segment, found = IndexCache(store, 1 << 30), tiered.cache.segments()[0], []
    store.gate.clear()
    threads = [threading.Thread(target=lambda: found.append(cache.indexes(segment))) for _ in range(8)]
    for thread in threads:
        thread.start()
    store.gate.set()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8 and all(one is found[0] for one in found)
    assert store.fetched.count((segment.segment_id, PartType.OFFSET_INDEX)) == 1


def test_failed_fetch_is_tried_again_by_the_next_reader(tiered: TieredLog) -> None:
    store: Any = Counting(tiered)
    cache, segment = IndexCache(store, 1 << 30), tiered.cache.segments()[0]
    store.failures = 1
    with pytest.raises(RemoteStorageError):
        cache.indexes(segment)
    assert len(cache) == 0
    assert len(cache.indexes(segment).offsets) > 0


def test_missing_transaction_index_of_old_metadata_is_empty(tiered: TieredLog) -> None:
    segment = next(one for one in tiered.cache.segments() if one.txn_index_empty)
    cache = IndexCache(tiered.store, _MIB)
    assert cache.aborted(segment._replace(txn_index_empty=False)) == []
    assert cache.aborted(segment) == []


def test_read_of_a_segment_that_is_gone_is_an_error(tiered: TieredLog, tmp_path: Path) -> None:
    store = FolderStore({"dir": str(tmp_path)})
    store.create()
    with pytest.raises(RemoteStorageError, match="is not in the store"):
        read_segment(store, IndexCache(store, _MIB), segment_of(tiered, 0), 0, 100)
