"""Indexes of remote segments, parsed and checked, their cache, bounded in bytes (Kafka's `RemoteIndexCache`), and the state
of a log at the end of a segment.

The files are those of local segments (`storage/segments/index.py`). A remote one comes from
outside: entries must ascend and lie within the segment, or the object is damaged.

Several threads read the cache. One of them fetches a missing index, and the others wait for it. The cache is in memory, not
in files: an index of a segment of 1 GiB has 5 MB, and is often 0.
"""

from __future__ import annotations

import operator
import struct
import sys
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from itertools import pairwise
from typing import Any, NamedTuple

from ..protocol.internal.producer_snapshot import ProducerEntry
from ..storage.segments.index import AbortedTransaction, CorruptSnapshot, decode_snapshot, is_plausible
from .segment_metadata import RemoteLogSegmentMetadata
from .store import DamagedRemoteObject, PartType, RemoteResourceNotFound, RemoteStore, object_name, remote_index

_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
#: Memory of an entry beside its content: objects, keys, the record in the order of uses.
_OVERHEAD_BYTES = 1_000
#: A NamedTuple of four numbers.
_ABORTED_BYTES = 200


class RemoteIndexes(NamedTuple):
    """The offset and time index of a segment, as columns. Offsets are relative to the segment's start."""

    start_offset: int
    offsets: array[int]
    positions: array[int]
    timestamps: array[int]
    time_offsets: array[int]

    @property
    def size_bytes(self) -> int:
        columns = (self.offsets, self.positions, self.timestamps, self.time_offsets)
        return sum(column.itemsize * len(column) for column in columns) + _OVERHEAD_BYTES

    def position_of(self, offset: int) -> int:
        """Returns a position at or before the batch that has `offset`: from there to walk."""
        number = bisect_right(self.offsets, offset - self.start_offset) - 1
        return self.positions[number] if number >= 0 else 0

    def offset_from(self, timestamp: int) -> int:
        """Returns an offset before which every record is older than `timestamp`."""
        number = bisect_right(self.timestamps, timestamp) - 1
        return self.start_offset + (self.time_offsets[number] if number >= 0 else 0)


def parse_indexes(segment: RemoteLogSegmentMetadata, offset_index: bytes, time_index: bytes) -> RemoteIndexes:
    """Raises DamagedRemoteObject, with the position of the first entry that cannot be right."""
    return RemoteIndexes(
        segment.start_offset, *_offset_columns(segment, offset_index), *_time_columns(segment, time_index)
    )


def _offset_columns(segment: RemoteLogSegmentMetadata, content: bytes) -> tuple[array[int], array[int]]:
    """Returns the columns of entries of 8 bytes. Zeros at the end are preallocated: the first entry may be one of them."""
    entries = array("i")
    entries.frombytes(_whole(segment, PartType.OFFSET_INDEX, content, 8))
    if sys.byteorder == "little":
        entries.byteswap()
    offsets, positions = entries[0::2], entries[1::2]
    used = len(positions)
    while used and positions[used - 1] == 0:
        used -= 1
    offsets, positions = offsets[:used], positions[:used]
    _check(segment, PartType.OFFSET_INDEX, offsets, segment.end_offset - segment.start_offset, 8)
    _check(segment, PartType.OFFSET_INDEX, positions, segment.size_bytes - 1, 8)
    return offsets, positions


def _time_columns(segment: RemoteLogSegmentMetadata, content: bytes) -> tuple[array[int], array[int]]:
    pairs = list(_TIME_ENTRY.iter_unpack(_whole(segment, PartType.TIME_INDEX, content, 12)))
    while pairs and pairs[-1] == (0, 0):
        pairs.pop()
    timestamps, offsets = array("q", (one for one, _ in pairs)), array("i", (one for _, one in pairs))
    _check(segment, PartType.TIME_INDEX, offsets, segment.end_offset - segment.start_offset, 12)
    _check(segment, PartType.TIME_INDEX, timestamps, None, 12)
    return timestamps, offsets


def _whole(segment: RemoteLogSegmentMetadata, part: PartType, content: bytes, width: int) -> bytes:
    if len(content) % width:
        reason = f"{len(content)} bytes are no entries of {width}"
        raise DamagedRemoteObject(object_name(segment, part), len(content), reason)
    return content


def _check(segment: RemoteLogSegmentMetadata, part: PartType, column: array[int], most: int | None, width: int) -> None:
    """Raises DamagedRemoteObject if a column descends, or is not within 0 and `most`; None: any numbers."""
    if not all(map(operator.le, column, column[1:])):
        number = next(number for number in range(1, len(column)) if column[number] < column[number - 1])
        raise DamagedRemoteObject(object_name(segment, part), number * width, f"{column[number]} is out of order")
    if column and most is not None and (column[0] < 0 or column[-1] > most):
        number = 0 if column[0] < 0 else next(number for number, one in enumerate(column) if one > most)
        reason = f"{column[number]} is not within the segment"
        raise DamagedRemoteObject(object_name(segment, part), number * width, reason)


def parse_aborted(segment: RemoteLogSegmentMetadata, content: bytes) -> list[AbortedTransaction]:
    """Returns the aborted transactions whose markers are in the segment. Raises DamagedRemoteObject."""
    width, found, before = _ABORTED_ENTRY.size, [], segment.start_offset - 1
    entries = _ABORTED_ENTRY.iter_unpack(_whole(segment, PartType.TRANSACTION_INDEX, content, width))
    for number, (version, *fields) in enumerate(entries):
        entry = AbortedTransaction(*fields)
        if version != 0 or not before < entry.last_offset <= segment.end_offset or not is_plausible(entry):
            name = object_name(segment, PartType.TRANSACTION_INDEX)
            raise DamagedRemoteObject(name, number * width, f"version {version}, {entry}")
        found.append(entry)
        before = entry.last_offset
    return found


Key = tuple[bytes, PartType]


class IndexCache:
    """Parsed indexes of remote segments; the least recently used ones go first. Any thread may call its methods."""

    def __init__(self, store: RemoteStore, most_bytes: int) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        #: A future that is not done is an index that is being fetched. It has no size yet.
        self._entries: OrderedDict[Key, tuple[Future[Any], int]] = OrderedDict()
        self._size_bytes = 0
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def indexes(self, segment: RemoteLogSegmentMetadata) -> RemoteIndexes:
        """Returns the offset and time index of a segment. Raises RemoteStorageError."""

        def fetch() -> tuple[RemoteIndexes, int]:
            parts = (remote_index(self._store, segment, one) for one in (PartType.OFFSET_INDEX, PartType.TIME_INDEX))
            found = parse_indexes(segment, *parts)
            return found, found.size_bytes

        found: RemoteIndexes = self._get((segment.segment_id, PartType.OFFSET_INDEX), fetch)
        return found

    def aborted(self, segment: RemoteLogSegmentMetadata) -> list[AbortedTransaction]:
        """Returns the aborted transactions whose markers are in the segment. Raises RemoteStorageError.

        Metadata that was written before Kafka 4.0 does not have that there is no index, so a missing one is empty.
        """
        if segment.txn_index_empty:
            return []

        def fetch() -> tuple[list[AbortedTransaction], int]:
            try:
                content = remote_index(self._store, segment, PartType.TRANSACTION_INDEX)
            except RemoteResourceNotFound:
                content = b""
            found = parse_aborted(segment, content)
            return found, len(found) * _ABORTED_BYTES + _OVERHEAD_BYTES

        found: list[AbortedTransaction] = self._get((segment.segment_id, PartType.TRANSACTION_INDEX), fetch)
        return found

    def resize(self, most_bytes: int) -> None:
        with self._lock:
            self._most_bytes = most_bytes
            self._evict()

    def remove(self, segment_ids: Iterable[bytes]) -> None:
        """Drops the indexes of segments that were deleted."""
        with self._lock:
            for segment_id in segment_ids:
                for part in (PartType.OFFSET_INDEX, PartType.TRANSACTION_INDEX):
                    self._drop((segment_id, part))

    def _get(self, key: Key, fetch: Callable[[], tuple[Any, int]]) -> Any:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                mine: Future[Any] = Future()
                self._entries[key] = (mine, 0)
                self.misses += 1
            else:
                self._entries.move_to_end(key)
                self.hits += 1
        if entry is not None:
            return entry[0].result()
        try:
            found, size = fetch()
        except BaseException as error:
            with self._lock:
                if self._entries.get(key, (None, 0))[0] is mine:
                    self._drop(key)
            mine.set_exception(error)
            raise
        with self._lock:
            if self._entries.get(key, (None, 0))[0] is mine:
                self._entries[key] = (mine, size)
                self._size_bytes += size
                self._evict()
        mine.set_result(found)
        return found

    def _drop(self, key: Key) -> None:
        self._size_bytes -= self._entries.pop(key, (None, 0))[1]

    def _evict(self) -> None:
        for key in [key for key, (_, size) in self._entries.items() if size]:
            if self._size_bytes <= self._most_bytes:
                return
            self._drop(key)


# ---- the state with which a follower begins behind the part of a log that only the store has (KIP-405)
#
# A follower whose offset the leader answers with OFFSET_MOVED_TO_TIERED_STORAGE does not fetch the records before the
# leader's local log start. It takes the leader epochs and the producers' state from the last remote segment before it, and
# fetches from there on.


class AuxiliaryState(NamedTuple):
    """The state of a log that starts at `start_offset`: (epoch, first offset) of all epochs before, and the producers."""

    start_offset: int
    epochs: list[tuple[int, int]]
    producers: list[ProducerEntry]


def fetch_auxiliary_state(store: RemoteStore, segment: RemoteLogSegmentMetadata) -> AuxiliaryState:
    """Returns the state at the end of a segment, `segment.end_offset + 1`. For a thread. Raises RemoteStorageError."""
    epochs = parse_leader_epochs(segment, remote_index(store, segment, PartType.LEADER_EPOCHS))
    try:
        producers = decode_snapshot(remote_index(store, segment, PartType.PRODUCER_SNAPSHOT))
    except CorruptSnapshot as error:
        raise DamagedRemoteObject(object_name(segment, PartType.PRODUCER_SNAPSHOT), 0, str(error)) from None
    return AuxiliaryState(segment.end_offset + 1, epochs, producers)


def parse_leader_epochs(segment: RemoteLogSegmentMetadata, content: bytes) -> list[tuple[int, int]]:
    """Returns (epoch, first offset) of the log up to the segment's end. Raises DamagedRemoteObject.

    The file is the log's `leader-epoch-checkpoint`. It must end with the epochs of the segment.
    """
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        pairs = [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines)]
        is_whole = (int(version), int(count)) == (0, len(pairs))
    except ValueError as error:
        raise _damaged_epochs(segment, str(error)) from None
    is_ascending = all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(pairs))
    last = [epoch for epoch, _ in segment.epochs]
    if not is_whole or not is_ascending or [epoch for epoch, _ in pairs[-len(last) :]] != last:
        raise _damaged_epochs(segment, f"{len(pairs)} epochs that are not those of the segment")
    if pairs[0][0] < 0 or pairs[0][1] < 0 or pairs[-1][1] > segment.end_offset + 1:
        raise _damaged_epochs(segment, f"epochs from offset {pairs[0][1]} to {pairs[-1][1]}")
    return pairs


def _damaged_epochs(segment: RemoteLogSegmentMetadata, reason: str) -> DamagedRemoteObject:
    return DamagedRemoteObject(object_name(segment, PartType.LEADER_EPOCHS), 0, reason)
