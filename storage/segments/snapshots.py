"""The `.snapshot` files of a log: its producers' state up to the offset that the file is named after.

The bytes: version (int16, 1), CRC-32C of what follows it (uint32), entries (see
protocol/internal/producer_snapshot.py).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ...protocol.checksum import crc32c
from ...protocol.codec import MalformedMessage, decode, encode
from ...protocol.internal.producer_snapshot import ProducerSnapshot

if TYPE_CHECKING:
    from ...protocol.internal.producer_snapshot import ProducerEntry

VERSION = 1
_SNAPSHOT_VERSION = struct.Struct(">h")
_CRC = struct.Struct(">I")
_ENTRIES_FROM = _SNAPSHOT_VERSION.size + _CRC.size


class CorruptSnapshot(Exception):
    """Not a producer snapshot, or damaged: the state is rebuilt from an older one and the log."""


def encode_snapshot(entries: list[ProducerEntry]) -> bytes:
    body = bytearray(
        _SNAPSHOT_VERSION.pack(VERSION) + encode(ProducerSnapshot(crc=0, producer_entries=entries), VERSION)
    )
    _CRC.pack_into(body, _SNAPSHOT_VERSION.size, crc32c(memoryview(body)[_ENTRIES_FROM:]))
    return bytes(body)


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Raises CorruptSnapshot."""
    if len(content) < _ENTRIES_FROM:
        raise CorruptSnapshot(f"{len(content)} bytes")
    (version,) = _SNAPSHOT_VERSION.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version}")
    try:
        snapshot, _ = decode(ProducerSnapshot, VERSION, content, _SNAPSHOT_VERSION.size)
    except MalformedMessage as error:
        raise CorruptSnapshot(str(error)) from None
    if snapshot.crc != crc32c(memoryview(content)[_ENTRIES_FROM:]):
        raise CorruptSnapshot("wrong CRC")
    return snapshot.producer_entries
