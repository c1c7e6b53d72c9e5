"""Remote stores: the parts of a segment that they keep, their interface, and their names in a configuration (KIP-405).

A segment is up to six objects of one name and different suffixes. A store writes them once, reads ranges of the log and
whole indexes, and deletes them. Kafka's interface is `RemoteStorageManager`.

The broker calls a store from several threads at once, and expects that a call takes long, fails, or returns other bytes than
were written. `remote_index` and `remote_range` check what a store returns; `check_store` compares a store with the metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from ..protocol.checksum import crc32c
from ..protocol.uuids import uuid_from_text, uuid_to_text
from .cache import RemoteLogMetadataCache
from .segment_metadata import (
    COPY_SEGMENT_FINISHED,
    InvalidSegmentMetadata,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    check_partition,
)

#: Bytes that are read at once of a file that is copied.
CHUNK_BYTES = 256 << 10


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


# ---- names


def directory_name(partition: TopicIdPartition) -> str:
    """Returns the name of a partition's folder. Raises InvalidSegmentMetadata for a topic that is not a name."""
    check_partition(partition)
    return f"{partition.topic}-{partition.partition}-{uuid_to_text(partition.topic_id)}"


def object_name(segment: RemoteLogSegmentMetadata, part: PartType) -> str:
    """Returns folder and name of a part. Raises InvalidSegmentMetadata."""
    file = f"{segment.start_offset:020}-{uuid_to_text(segment.segment_id)}{part.value}"
    return f"{directory_name(segment.partition)}/{file}"


def parse_object_name(name: str, size: int) -> StoredObject | None:
    """Returns the object of a name, or None for a name that no store gives."""
    folder, _, file = name.rpartition("/")
    stem, _, suffix = file.partition(".")
    topic_and_number, topic_id = folder[:-23], folder[-22:]
    topic, _, number = topic_and_number.rpartition("-")
    offset, _, segment_id = stem.partition("-")
    try:
        partition = TopicIdPartition(uuid_from_text(topic_id), topic, int(number))
        found = StoredObject(partition, int(offset), uuid_from_text(segment_id), PartType("." + suffix), size)
        is_exact = f"{directory_name(partition)}/{found.start_offset:020}-{segment_id}{found.part.value}" == name
    except (ValueError, InvalidSegmentMetadata):
        return None
    return found if is_exact else None


# ---- checksums: the custom metadata of Odradek's stores

_VERSION = 1
_CHECKSUM = struct.Struct(">II")
_PARTS = tuple(PartType)
_CHECKSUMS_BYTES = 1 + len(_PARTS) * _CHECKSUM.size
#: No part has this size: the largest log has less.
_ABSENT = 0xFFFFFFFF


class Checksums(NamedTuple):
    """Size in bytes and CRC-32C of each uploaded part."""

    of: Mapping[PartType, tuple[int, int]]

    def encode(self) -> bytes:
        """Returns 49 bytes: the version, 1, and for each of the parts its size (uint32; all bits for none) and CRC-32C."""
        pairs = (self.of.get(part, (_ABSENT, 0)) for part in _PARTS)
        return bytes((_VERSION,)) + b"".join(_CHECKSUM.pack(*pair) for pair in pairs)


def decode_checksums(custom_metadata: bytes | None) -> Checksums | None:
    """Returns the checksums of a segment; None where another store wrote it."""
    if custom_metadata is None or len(custom_metadata) != _CHECKSUMS_BYTES or custom_metadata[0] != _VERSION:
        return None
    pairs = dict(zip(_PARTS, _CHECKSUM.iter_unpack(custom_metadata[1:]), strict=True))
    return Checksums({part: (size, crc) for part, (size, crc) in pairs.items() if size != _ABSENT})


def chunks_of(source: Path | bytes, size: int) -> Iterator[bytes]:
    """Returns the first `size` bytes of a part in pieces. Raises RemoteStorageError for a file that is shorter."""
    if isinstance(source, bytes):
        yield source
        return
    left = size
    with source.open("rb", buffering=0) as file:
        while left:
            piece = file.read(min(CHUNK_BYTES, left))
            if not piece:
                raise RemoteStorageError(f"{source} has {size - left} bytes, not {size}", retriable=False)
            left -= len(piece)
            yield piece


def part_size(segment: RemoteLogSegmentMetadata, part: PartType, source: Path | bytes) -> int:
    """Returns the size to upload. That of a log is in the metadata: a file may be preallocated behind it."""
    if part is PartType.LOG:
        return segment.size_bytes
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def checksum_of(source: Path | bytes, size: int) -> int:
    """Returns the CRC-32C of the first `size` bytes."""
    crc = 0
    for piece in chunks_of(source, size):
        crc = crc32c(piece, crc)
    return crc


# ---- checked reads

#: Limit of a leader epoch checkpoint or producer snapshot, whose size does not follow from the segment's.
_MOST_SNAPSHOT_BYTES = 64 << 20
#: Kafka's default of `segment.index.bytes`: an index may be preallocated to this size.
_PREALLOCATED_INDEX_BYTES = 10 << 20
_LEAST_BATCH_BYTES = 61
_ENTRY_BYTES = {PartType.OFFSET_INDEX: 8, PartType.TIME_INDEX: 12, PartType.TRANSACTION_INDEX: 34}


def most_index_bytes(segment: RemoteLogSegmentMetadata, part: PartType) -> int:
    """Returns the largest size that the part of a segment can have: an entry for each of the smallest batches."""
    width = _ENTRY_BYTES.get(part)
    if width is None:
        return _MOST_SNAPSHOT_BYTES
    return max(width * (segment.size_bytes // _LEAST_BATCH_BYTES + 1), _PREALLOCATED_INDEX_BYTES)


def remote_index(store: RemoteStore, segment: RemoteLogSegmentMetadata, part: PartType) -> bytes:
    """Returns a whole part, checked against its checksum where there is one. Raises RemoteStorageError."""
    most = most_index_bytes(segment, part)
    content = store.fetch_index(segment, part, most)
    name, checksums = object_name(segment, part), decode_checksums(segment.custom_metadata)
    if len(content) > most:
        raise DamagedRemoteObject(name, most, f"{len(content)} bytes, a segment of {segment.size_bytes} has fewer")
    if checksums is not None and part in checksums.of:
        size, crc = checksums.of[part]
        if len(content) != size:
            raise DamagedRemoteObject(name, min(size, len(content)), f"{len(content)} bytes instead of {size}")
        if crc32c(content) != crc:
            raise DamagedRemoteObject(name, 0, "its CRC-32C is not that of the upload")
    return content


def remote_range(store: RemoteStore, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
    """Returns `size` bytes of the log, fewer only at its end by the metadata. Raises RemoteStorageError."""
    size = min(size, segment.size_bytes - position)
    if size <= 0:
        return b""
    content = store.fetch_log_segment(segment, position, size)
    if len(content) != size:
        name = object_name(segment, PartType.LOG)
        raise DamagedRemoteObject(name, position, f"{len(content)} bytes instead of {size}")
    return content


# ---- a store by its name

#: `remote.log.storage.manager.class.name` of a store of a user's own: `python:module:Name`.
PYTHON_PREFIX = "python:"
_STORES = {
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": f"{__package__}.folder_store:FolderStore",
    "folder": f"{__package__}.folder_store:FolderStore",
    "objects": f"{__package__}.object_store:ObjectStore",
}


def make_store(class_name: str, config: Mapping[str, str], *, creates: bool = False) -> RemoteStore:
    """Makes the store of `remote.log.storage.manager.class.name`; `config` has the keys below its prefix, without it.

    The name is that of Apache's LocalTieredStorage, `folder`, `objects`, or `python:module:Name` of a class that takes the
    configuration as its argument. `creates`: for a broker that starts. Raises InvalidStore.
    """
    target = class_name[len(PYTHON_PREFIX) :] if class_name.startswith(PYTHON_PREFIX) else _STORES.get(class_name)
    module, _, name = (target or "").partition(":")
    if not module or not name:
        raise InvalidStore(f"{class_name!r} is not a store: use folder, objects or {PYTHON_PREFIX}module:Name")
    try:
        made: RemoteStore = getattr(import_module(module), name)(config)
        missing = [one for one in _METHODS if not callable(getattr(made, one, None))]
        if missing:
            raise InvalidStore(f"{class_name} has no method {', '.join(missing)}")
        if creates:
            made.create()
    except InvalidStore:
        raise
    except Exception as error:
        raise InvalidStore(f"{class_name}: {type(error).__name__}: {error}") from error
    return made


_METHODS = (
    "create", "copy_log_segment_data", "fetch_log_segment", "fetch_index", "delete_log_segment_data", "objects", "close",
)  # fmt: skip


# ---- a check of a store against the metadata: objects that no event names, and parts that are missing or of the wrong size
#
# Pure: the caller lists the store and hands in ready caches. A crash leaves no orphan that a leader does not collect. A
# deposed leader that crashes in its last upload may leave one, and so may a metadata topic that was deleted.

_REQUIRED = frozenset(PartType) - {PartType.TRANSACTION_INDEX}


class WrongPart(NamedTuple):
    """A part of a copied segment. `found` and `expected` are sizes in bytes; None: it is missing, its size is not known."""

    segment: RemoteLogSegmentMetadata
    part: PartType
    found: int | None
    expected: int | None


class StoreReport(NamedTuple):
    """`orphans` are objects of checked partitions and no segment; they may be deleted. `unchecked` counts objects of other
    partitions: they may be of another cluster.
    """

    orphans: list[StoredObject]
    wrong_parts: list[WrongPart]
    checked: int
    unchecked: int


def check_store(
    objects: Iterable[StoredObject],
    caches: Mapping[TopicIdPartition, RemoteLogMetadataCache],
    copied_before: Collection[bytes],
) -> StoreReport:
    """Compares the objects of a store with the caches of partitions that are ready and not doubtful.

    `copied_before` are the ids of the segments that were copied before the store was listed (`copied_segments`); the caches
    are those after it. So a copy or a deletion in between is no error: its objects are named, or are gone anyway.
    """
    sizes: dict[bytes, dict[PartType, int]] = {}
    orphans, checked, unchecked = [], 0, 0
    for one in objects:
        cache = caches.get(one.partition)
        if cache is None:
            unchecked += 1
            continue
        checked += 1
        segment = cache.segment(one.segment_id)
        if segment is None or segment.start_offset != one.start_offset:
            orphans.append(one)
        else:
            sizes.setdefault(one.segment_id, {})[one.part] = one.size
    copied = [one for one in copied_segments(caches.values()) if one.segment_id in copied_before]
    wrong = [found for segment in copied for found in _wrong_parts(segment, sizes.get(segment.segment_id, {}))]
    return StoreReport(orphans, wrong, checked, unchecked)


def copied_segments(caches: Iterable[RemoteLogMetadataCache]) -> list[RemoteLogSegmentMetadata]:
    return [one for cache in caches for one in cache.segments() if one.state is COPY_SEGMENT_FINISHED]


def _wrong_parts(segment: RemoteLogSegmentMetadata, sizes: Mapping[PartType, int]) -> list[WrongPart]:
    checksums = decode_checksums(segment.custom_metadata)
    expected: dict[PartType, int | None] = dict.fromkeys(_REQUIRED)
    expected[PartType.LOG] = segment.size_bytes
    if checksums is not None:
        expected |= {part: size for part, (size, _) in checksums.of.items()}
    return [
        WrongPart(segment, part, sizes.get(part), size)
        for part, size in sorted(expected.items(), key=lambda one: one[0].value)
        if part not in sizes or (size is not None and sizes[part] != size)
    ]
