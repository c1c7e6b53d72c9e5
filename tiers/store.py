"""Remote stores: the parts of a segment that they keep, and their interface (KIP-405).

A segment is up to six objects of one name and different suffixes. A store writes them once, reads ranges of the log and
whole indexes, and deletes them. Kafka's interface is `RemoteStorageManager`.

The broker calls a store from several threads at once, and expects that a call takes long, fails, or returns other bytes than
were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from .segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition


class RemoteStorageError(Exception):
    """The store failed. `retriable`: the same call may succeed later, so what was uploaded is kept until then."""

    def __init__(self, text: str, *, retriable: bool = True) -> None:
        super().__init__(text)
        self.retriable = retriable


class RemoteResourceNotFound(RemoteStorageError):
    """The store has no such object."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not in the store", retriable=False)


class DamagedRemoteObject(RemoteStorageError):
    """The store returned something that was not written, or the object is too short. The text names object and position."""

    def __init__(self, name: str, position: int, reason: str) -> None:
        super().__init__(f"{name} is damaged at {position}: {reason}", retriable=False)
        self.name, self.position, self.reason = name, position, reason


class InvalidStore(ValueError):
    """The configuration names no store, or one that cannot be made."""


class PartType(Enum):
    """A part of a segment; the value is the suffix of its name, as in Apache's `LocalTieredStorage`."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    LEADER_EPOCHS = ".leader_epoch_checkpoint"
    PRODUCER_SNAPSHOT = ".snapshot"


class SegmentParts(NamedTuple):
    """The parts of a closed segment: files, and the content of the checkpoint of leader epochs up to its end."""

    log: Path
    offset_index: Path
    time_index: Path
    #: None where no transaction was aborted.
    transaction_index: Path | None
    #: The producers' state at the segment's end.
    producer_snapshot: Path
    leader_epochs: bytes

    def sources(self) -> list[tuple[PartType, Path | bytes]]:
        """Returns the parts in the order in which they are written: the log at last, so that it has all others."""
        found: list[tuple[PartType, Path | bytes | None]] = [
            (PartType.LEADER_EPOCHS, self.leader_epochs),
            (PartType.PRODUCER_SNAPSHOT, self.producer_snapshot),
            (PartType.TRANSACTION_INDEX, self.transaction_index),
            (PartType.TIME_INDEX, self.time_index),
            (PartType.OFFSET_INDEX, self.offset_index),
            (PartType.LOG, self.log),
        ]
        return [(part, source) for part, source in found if source is not None]


class StoredObject(NamedTuple):
    """An object that a store has: of which segment, which part, and its size in bytes."""

    partition: TopicIdPartition
    start_offset: int
    segment_id: bytes
    part: PartType
    size: int


class OpenUpload(NamedTuple):
    """An upload in parts that has begun and not ended: its object's name in the bucket, its id, and its segment."""

    name: str
    upload_id: str
    partition: TopicIdPartition
    segment_id: bytes


class RemoteStore(Protocol):
    """The interface of a store. Methods raise RemoteStorageError; several threads call them."""

    def create(self) -> None:
        """Makes what copies are written to, such as a folder. A broker calls it once, before all other methods; no other
        method makes it again, and a reader with a wrong path makes nothing.
        """
        ...

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        """Writes all parts, and returns when they are durable. Parts of an earlier attempt with the same id may be there.

        Returns the custom metadata of the segment: what the store must know of it, at most
        `remote.log.metadata.custom.metadata.max.bytes`.
        """
        ...

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        """Returns `size` bytes of the log from `position` on; fewer where the object ends before. Raises
        RemoteResourceNotFound.
        """
        ...

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        """Returns a whole part other than the log. Raises RemoteResourceNotFound, and DamagedRemoteObject for one of more
        than `most_bytes`, without reading it.
        """
        ...

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        """Deletes all parts, also those of an upload that has not ended. Parts that are not there are no error."""
        ...

    def objects(self) -> Iterator[StoredObject]:
        """Returns all objects of segments, in any order, for a check against the metadata."""
        ...

    def close(self) -> None: ...


class BulkDeletion(Protocol):
    """A store that deletes many segments in fewer calls than one each, beside the interface."""

    def delete_log_segments(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Deletes all parts of several segments, as `delete_log_segment_data` does. After an exception some are deleted."""
        ...


class UploadListing(Protocol):
    """A store that lists uploads in parts, beside the interface."""

    def open_uploads(self, partition: TopicIdPartition | None = None) -> list[OpenUpload]:
        """Returns those of segments, of one partition or all, that have begun and not ended, in any order."""
        ...

    def abort_uploads(self, uploads: Sequence[OpenUpload]) -> None:
        """Ends uploads and deletes their parts. One that is not there is no error."""
        ...
