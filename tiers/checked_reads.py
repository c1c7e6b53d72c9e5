"""Reads of a remote store, which check what the store returns against the metadata."""

from __future__ import annotations

from ..protocol.checksum import crc32c
from .checksums import decode_checksums
from .object_names import object_name
from .segment_metadata import RemoteLogSegmentMetadata
from .store import DamagedRemoteObject, PartType, RemoteStore

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
