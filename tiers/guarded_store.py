"""A remote store of a user's own class, which raises nothing else than errors of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from .segment_metadata import RemoteLogSegmentMetadata
from .store import PartType, RemoteStorageError, RemoteStore, SegmentParts, StoredObject

T = TypeVar("T")


class GuardedStore:
    """A `RemoteStore` of a user's own class, that raises nothing else than RemoteStorageError. `name`: that of the class.

    A class raises what its library raises: OSError, an error of an SDK, a mistake of its own. None of them is a bug of the
    broker, and all may pass. What it returns is checked, too.
    """

    def __init__(self, store: RemoteStore, name: str) -> None:
        self._store = store
        self._name = name

    def create(self) -> None:
        self._called("create", self._store.create)

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        method = "copy_log_segment_data"
        found = self._called(method, lambda: self._store.copy_log_segment_data(segment, parts))
        return None if found is None else self._bytes(method, found)

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        method = "fetch_log_segment"
        return self._bytes(method, self._called(method, lambda: self._store.fetch_log_segment(segment, position, size)))

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        method = "fetch_index"
        return self._bytes(method, self._called(method, lambda: self._store.fetch_index(segment, part, most_bytes)))

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        self._called("delete_log_segment_data", lambda: self._store.delete_log_segment_data(segment))

    def objects(self) -> Iterator[StoredObject]:
        found = self._called("objects", lambda: iter(self._store.objects()))
        while (one := self._called("objects", lambda: next(found, None))) is not None:
            yield one

    def close(self) -> None:
        self._called("close", self._store.close)

    def _called(self, method: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except RemoteStorageError:
            raise
        except Exception as error:
            raise RemoteStorageError(f"{self._name}.{method}: {type(error).__name__}: {error}") from error

    def _bytes(self, method: str, data: object) -> bytes:
        if isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise RemoteStorageError(f"{self._name}.{method} returned {type(data).__name__}, not bytes", retriable=False)
