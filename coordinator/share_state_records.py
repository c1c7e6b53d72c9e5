"""Encoding and decoding of `__share_group_state` records, framed as those of `__consumer_offsets`."""

from __future__ import annotations

from ..protocol.buffer import Buffer
from ..protocol.internal.share_group_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from ..protocol.schema import Message
from .record_framing import UnknownRecord, decode_key, decode_value, encode_framed, number_of, prefix
from .result import Record

_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
_PREFIXES = {key: prefix(kind) for kind, (key, _) in _KINDS.items()}


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    return encode_framed(_PREFIXES[type(record.key)], record)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Decodes a record. Raises UnknownRecord for an unknown type and MalformedMessage for malformed bytes."""
    kind = number_of(key)
    if kind not in _KINDS:
        raise UnknownRecord(f"a record of kind {kind}")
    key_class, value_class = _KINDS[kind]
    return decode_value(decode_key(key_class, key), value_class, value)
