"""Checksums of uploaded parts, which are the custom metadata of Odradek's stores."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..protocol.checksum import crc32c
from .segment_metadata import RemoteLogSegmentMetadata
from .store import PartType, RemoteStorageError

#: Bytes that are read at once of a file that is copied.
CHUNK_BYTES = 256 << 10

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
