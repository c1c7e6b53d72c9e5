"""Records of `__transaction_state` as bytes, and back: framed as those of `__consumer_offsets` are.

Values are of version 1, which has tagged fields, once the cluster's `transaction.version` is 1 or more, else of version 0.
"""

from __future__ import annotations

import struct

from ...protocol.codec import decode, encode
from ...protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue
from ...protocol.varint import Buffer
from ..records import UnknownRecord
from ..result import Record

_PREFIX = struct.Struct(">h")
_KEY_VERSION = 0


def transaction_record(transactional_id: str, value: TransactionLogValue | None, transaction_version: int) -> Record:
    return Record(TransactionLogKey(transactional_id=transactional_id), value, 1 if transaction_version >= 1 else 0)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    key, value, version, *_ = record
    key_bytes = _PREFIX.pack(_KEY_VERSION) + encode(key, _KEY_VERSION)
    return key_bytes, None if value is None else _PREFIX.pack(version) + encode(value, version)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    kind = _prefix(key)
    if kind != _KEY_VERSION:
        raise UnknownRecord(f"a record of kind {kind}")
    decoded, _ = decode(TransactionLogKey, _KEY_VERSION, key, _PREFIX.size)
    if value is None:
        return Record(decoded, None)
    version = _prefix(value)
    if version not in TransactionLogValue.SCHEMA.versions:
        raise UnknownRecord(f"TransactionLogValue of version {version}")
    return Record(decoded, decode(TransactionLogValue, version, value, _PREFIX.size)[0], version)


def _prefix(buf: Buffer) -> int:
    if len(buf) < _PREFIX.size:
        raise UnknownRecord("a record without a kind")
    kind: int = _PREFIX.unpack_from(buf)[0]
    return kind
