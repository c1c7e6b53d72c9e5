"""Remote reads: from an offset to whole batches, from a timestamp to a record, and aborted transactions (KIP-405).

The caller finds the segment of an offset in the cache (`segment_at`); the functions that take a store are for a thread.
What a store returns is checked: batches follow one another within the segment's offsets and epochs, and each one's CRC is
right. The CRC does not cover a batch's base offset and epoch, so these are checked against its neighbours and the segment's
epochs. Damage is named by object and position (DamagedRemoteObject).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..protocol.buffer import Buffer
from ..protocol.checksum import crc32c
from ..protocol.records.batch import (
    CRC_FROM,
    HEADER_BYTES,
    LEAST_LENGTH,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from ..protocol.records.errors import BatchError
from ..storage.log.epochs import epoch_of
from ..storage.segments.aborted import AbortedTransaction
from ..storage.segments.timestamps import LargeBatch, TimestampedOffset
from .cache import RemoteLogMetadataCache
from .checked_reads import remote_range
from .index_cache import IndexCache
from .lineage import NO_EPOCH, Epochs, common_end
from .object_names import object_name
from .segment_metadata import RemoteLogSegmentMetadata, SegmentRange
from .store import DamagedRemoteObject, PartType, RemoteStore

#: `socket.request.max.bytes`: no producer has sent a larger batch.
MOST_BATCH_BYTES = 100 << 20
#: Bytes before the wanted batch that are read with it: those between two index entries, by default 4 KiB, and a batch.
_BEFORE_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 20
#: Base offset, length, leader epoch, magic, CRC, and the delta of the last offset.
_CHECKED_FIELDS = struct.Struct(">qiibI2xi")


class RemoteRead(NamedTuple):
    """`data` are whole batches, the first of them the one that contains the offset. A reader asks for `next_offset` next.

    Without data, the segment has no batch at or behind the offset: the next segment has.
    """

    #: A view of what the store returned: it is not copied.
    data: memoryview
    next_offset: int


def segment_at(cache: RemoteLogMetadataCache, epochs: Epochs, offset: int) -> RemoteLogSegmentMetadata | None:
    """Returns the remote segment that has `offset` in the history of a log with these epochs; None: OFFSET_OUT_OF_RANGE."""
    return cache.segment_for(epoch_of(epochs, offset), offset)


def segment_ranges(cache: RemoteLogMetadataCache, epochs: Epochs, start: int, end: int) -> list[SegmentRange]:
    """Returns which segments have the offsets from `start` up to before `end`, each offset once, in the history of a log
    with these epochs. They end before the first offset that no segment has.
    """
    found: list[SegmentRange] = []
    offset = start
    while offset < end:
        segment = segment_at(cache, epochs, offset)
        if segment is None:
            break
        next_offset = min(common_end(segment, epochs, offset), end)
        found.append(SegmentRange(offset, next_offset, segment))
        offset = next_offset
    return found


def next_segment_with_aborted(
    cache: RemoteLogMetadataCache, epochs: Epochs, offset: int
) -> RemoteLogSegmentMetadata | None:
    """Returns the first remote segment from `offset` on that may have aborted transactions; None if no one has."""
    first = epoch_of(epochs, offset)
    for number, (epoch, start) in enumerate(epochs):
        if epoch >= first:
            found = cache.next_segment_with_aborted(epoch, max(start, offset))
            # Another leader of the epoch may have written, and copied, more of it than the log has.
            if found is not None and (number + 1 == len(epochs) or found.start_offset < epochs[number + 1][1]):
                return found
    return None


def read_segment(
    store: RemoteStore,
    indexes: IndexCache,
    segment: RemoteLogSegmentMetadata,
    offset: int,
    max_bytes: int,
    *,
    min_one_batch: bool = True,
    up_to_offset: int | None = None,
) -> RemoteRead:
    """Returns the whole batches from the one that contains `offset` on that take `max_bytes` at most; with `min_one_batch`
    the first may take more, up to MOST_BATCH_BYTES. Batches from `up_to_offset` on are left out: they are of another
    history (`common_end`). Raises RemoteStorageError.
    """
    assert segment.start_offset <= offset <= segment.end_offset, f"offset {offset} is not in {segment}"
    indexed = indexes.indexes(segment).position_of(offset)
    walk = _Walk(store, segment, indexed, max_bytes + _BEFORE_BYTES, up_to_offset)
    for position, header in walk.headers():
        if position == indexed > 0 and header.base_offset > offset:
            reason = f"it has position {position} for offset {offset}, where the batch of {header.base_offset} is"
            raise DamagedRemoteObject(object_name(segment, PartType.OFFSET_INDEX), 0, reason)
        if header.base_offset >= walk.up_to_offset:
            break
        if header.last_offset >= offset:
            return _read_from(walk, position, header, max_bytes, min_one_batch)
    return RemoteRead(memoryview(b""), walk.up_to_offset)


def _read_from(walk: _Walk, start: int, first: BatchHeader, max_bytes: int, min_one_batch: bool) -> RemoteRead:
    if first.size > max_bytes:
        if not min_one_batch:
            return RemoteRead(memoryview(b""), first.base_offset)
        data = walk.content(start, first.size)
        walk.check(data, 0, start, first)
        walk.check_follows(start + first.size, first.next_offset)
        return RemoteRead(data, first.next_offset)
    data = walk.content(start, max_bytes)
    end, next_offset = _whole_batches(walk, data, start, first.base_offset)
    walk.check_follows(start + end, next_offset)
    return RemoteRead(data[:end], next_offset)


def _whole_batches(walk: _Walk, data: memoryview, start: int, least_offset: int) -> tuple[int, int]:
    """Checks the whole batches in `data`, which begins at `start` of the log. Returns where they end, and the next offset.

    The checks are those of `_Walk.header` and `check`, in a third of their time; these are called for the error. A batch
    that is cut is left to the next read.
    """
    position, size, segment = 0, len(data), walk.segment
    known_epoch, epoch_end = NO_EPOCH, segment.end_offset
    while position + HEADER_BYTES <= size:
        base, length, epoch, magic, crc, delta = _CHECKED_FIELDS.unpack_from(data, position)
        stop, last = position + LOG_OVERHEAD + length, base + delta
        if epoch != known_epoch:
            walk.header(data, position, start + position, least_offset)
            known_epoch, epoch_end = epoch, segment.end_offset if epoch < 0 else segment.epoch_end_offset(epoch)
        if magic != MAGIC or length < LEAST_LENGTH or not least_offset <= base <= last <= segment.end_offset:
            walk.header(data, position, start + position, least_offset)
        if stop > size or base >= walk.up_to_offset:
            break
        if base > epoch_end or crc32c(data[position + CRC_FROM : stop]) != crc:
            walk.check(data, position, start + position, walk.header(data, position, start + position, least_offset))
        position, least_offset = stop, last + 1
    return position, least_offset


def find_by_timestamp(
    store: RemoteStore, indexes: IndexCache, segment: RemoteLogSegmentMetadata, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    """Returns the segment's first record at or behind `start_offset` with at least `timestamp`; None if there is none.

    Raises RemoteStorageError.
    """
    known = indexes.indexes(segment)
    position = known.position_of(max(start_offset, known.offset_from(timestamp)))
    walk = _Walk(store, segment, position, _CHUNK_BYTES)
    for at, header in walk.headers():
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            data = walk.content(at, header.size)
            walk.check(data, 0, at, header)
            found = LargeBatch(header, bytes(data), timestamp, start_offset).find()
            if found is not None:
                return found
    return None


def aborted_transactions(
    indexes: IndexCache,
    segment: RemoteLogSegmentMetadata,
    offset: int,
    up_to_offset: int,
    following: Callable[[int], RemoteLogSegmentMetadata | None],
    epochs: Epochs,
) -> tuple[list[AbortedTransaction], bool]:
    """Returns the aborted transactions with records from `offset` up to before `up_to_offset`, and whether they are all.

    Otherwise the rest is in local segments: the marker of a transaction may come long after its records. `following` returns
    the next segment, from an offset on, that may have aborted transactions (`next_segment_with_aborted`). `epochs` are those
    of the log. Raises RemoteStorageError.
    """
    found: list[AbortedTransaction] = []
    current: RemoteLogSegmentMetadata | None = segment
    after = offset
    while current is not None:
        part, is_all, after = aborted_in_segment(indexes, current, offset, up_to_offset, epochs, after)
        found += part
        if is_all:
            return found, True
        current = following(after)
        assert current is None or current.end_offset >= after, f"{current} does not follow offset {after}"
    return found, False


def aborted_in_segment(
    indexes: IndexCache,
    segment: RemoteLogSegmentMetadata,
    offset: int,
    up_to_offset: int,
    epochs: Epochs,
    from_offset: int,
) -> tuple[list[AbortedTransaction], bool, int]:
    """Returns the aborted transactions of `aborted_transactions` that end in a segment from `from_offset` on, whether they
    are all, and the offset from which on the next segment counts.

    The end of the segment may be of another history (`common_end`), in which the transactions ended in another way.
    """
    found: list[AbortedTransaction] = []
    first = max(from_offset, segment.start_offset)
    end = common_end(segment, epochs, first)
    for entry in indexes.aborted(segment):
        if entry.last_offset >= end:
            break
        if entry.last_offset >= offset and entry.first_offset < up_to_offset:
            found.append(entry)
        if entry.last_stable_offset >= up_to_offset:
            return found, True, end
    return found, False, end if end > first else segment.end_offset + 1


class _Walk:
    """Batch headers of a remote segment from a position on, read in chunks, of which the last one is kept."""

    def __init__(
        self, store: RemoteStore, segment: RemoteLogSegmentMetadata, position: int, chunk_bytes: int,
        up_to_offset: int | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self.segment = segment
        #: Batches from it on are not read.
        self.up_to_offset = segment.end_offset + 1 if up_to_offset is None else up_to_offset
        self._start = position
        self._chunk_bytes = max(chunk_bytes, HEADER_BYTES)
        self._chunk = b""
        self._chunk_at = position

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Returns (position, header) of each batch."""
        position, least = self._start, self.segment.start_offset
        while position < self.segment.size_bytes:
            at = position - self._chunk_at
            if at + HEADER_BYTES > len(self._chunk):
                self._chunk = remote_range(self._store, self.segment, position, self._chunk_bytes)
                self._chunk_at, at = position, 0
            header = self.header(self._chunk, at, position, least)
            yield position, header
            position, least = position + header.size, header.next_offset

    def header(self, data: Buffer, at: int, position: int, least_offset: int) -> BatchHeader:
        """Returns the header at `at` of `data`, which is at `position` of the log. Raises DamagedRemoteObject."""
        segment = self.segment
        try:
            header = read_header(data, at)
        except BatchError as error:
            raise self._damaged(position, str(error)) from None
        if (
            header.magic != MAGIC
            or not HEADER_BYTES <= header.size <= min(segment.size_bytes - position, MOST_BATCH_BYTES)
            or not least_offset <= header.base_offset <= header.last_offset <= segment.end_offset
        ):
            raise self._damaged(position, f"no batch of the segment: {header}")
        # A segment has an epoch for each of its batches, but batches of a format before KIP-101 may have none.
        if header.leader_epoch >= 0 and not segment.has(header.leader_epoch, header.base_offset):
            raise self._damaged(position, f"no batch of the segment's leader epochs: {header}")
        return header

    def check_follows(self, position: int, least_offset: int) -> None:
        """Raises DamagedRemoteObject if the header at `position` is in the chunk, and of an offset below `least_offset`."""
        at = position - self._chunk_at
        if position < self.segment.size_bytes and at + HEADER_BYTES <= len(self._chunk):
            self.header(self._chunk, at, position, least_offset)

    def content(self, position: int, size: int) -> memoryview:
        """Returns up to `size` bytes of the log, of which the chunk may have some."""
        at = position - self._chunk_at
        assert 0 <= at <= len(self._chunk), f"{position} is not in the chunk at {self._chunk_at}"
        have = memoryview(self._chunk)[at : at + size]
        if len(have) == size or position + len(have) >= self.segment.size_bytes:
            return have
        rest = remote_range(self._store, self.segment, position + len(have), size - len(have))
        return memoryview(b"".join((have, rest)))

    def check(self, data: Buffer, at: int, position: int, header: BatchHeader) -> None:
        """Raises DamagedRemoteObject for a batch whose CRC is not that of its bytes."""
        try:
            check_crc(data, at, header)
        except BatchError as error:
            raise self._damaged(position, str(error)) from None

    def _damaged(self, position: int, reason: str) -> DamagedRemoteObject:
        return DamagedRemoteObject(object_name(self.segment, PartType.LOG), position, reason)
