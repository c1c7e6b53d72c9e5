"""Records of `__share_group_state` as bytes, and back: framed as those of `__consumer_offsets`."""

from __future__ import annotations

import struct

from ....protocol.codec import decode, encode
from ....protocol.internal.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ....protocol.schema import Message
from ....protocol.varint import Buffer
from ...records import UnknownRecord
from ...result import Record

_PREFIX = struct.Struct(">h")
_VALUE_VERSION = 0
_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
_PREFIXES = {key: _PREFIX.pack(kind) for kind, (key, _) in _KINDS.items()}


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    key, value, *_ = record
    key_bytes = _PREFIXES[type(key)] + encode(key, 0)
    return key_bytes, None if value is None else _PREFIX.pack(_VALUE_VERSION) + encode(value, _VALUE_VERSION)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    kind = _prefix(key)
    if kind not in _KINDS:
        raise UnknownRecord(f"a record of kind {kind}")
    key_class, value_class = _KINDS[kind]
    decoded, _ = decode(key_class, 0, key, _PREFIX.size)
    if value is None:
        return Record(decoded, None)
    version = _prefix(value)
    if version not in value_class.SCHEMA.versions:
        raise UnknownRecord(f"{value_class.__name__} of version {version}")
    return Record(decoded, decode(value_class, version, value, _PREFIX.size)[0], version)


def _prefix(buf: Buffer) -> int:
    if len(buf) < _PREFIX.size:
        raise UnknownRecord("a record without a kind")
    kind: int = _PREFIX.unpack_from(buf)[0]
    return kind
