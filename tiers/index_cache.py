"""The cache of parsed indexes of remote segments, bounded in bytes (Kafka's `RemoteIndexCache`).

Several threads read the cache. One of them fetches a missing index, and the others wait for it. The cache is in memory, not
in files: an index of a segment of 1 GiB has 5 MB, and is often 0.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from ..storage.segments.aborted import AbortedTransaction
from .checked_reads import remote_index
from .indexes import OVERHEAD_BYTES, RemoteIndexes, parse_aborted, parse_indexes
from .segment_metadata import RemoteLogSegmentMetadata
from .store import PartType, RemoteResourceNotFound, RemoteStore

T = TypeVar("T")
#: A NamedTuple of four numbers.
_ABORTED_BYTES = 200

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
            return found, len(found) * _ABORTED_BYTES + OVERHEAD_BYTES

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

    def _get(self, key: Key, fetch: Callable[[], tuple[T, int]]) -> T:
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
            return cast(T, entry[0].result())
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
