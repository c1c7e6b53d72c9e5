"""Records of `__consumer_offsets` as bytes, and back.

A key begins with two bytes that say what it is the key of, a value with two bytes of its version; then follow the
messages of `protocol/internal/classic_group_records.py`. As Kafka 4.4 writes them: GroupMetadataValue 3,
OffsetCommitValue 4, or 1 when the client asked for a retention time of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ..protocol.codec import decode, encode
from ..protocol.internal.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..protocol.schema import Message
from ..protocol.varint import Buffer
from .consumer import record_types as consumer_records
from .result import Record

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
#: The version that has an expiry of its own.
OFFSET_COMMIT_EXPIRING_VERSION = 1

#: The number that a key begins with -> key and value, of the kinds of groups that are known but the classic one.
RecordType = tuple[type[Message], type[Message]]
RECORD_TYPES: dict[int, RecordType] = {**consumer_records.RECORD_TYPES}
_PREFIX = struct.Struct(">h")
_OFFSET_COMMIT = _PREFIX.pack(1)
_GROUP_METADATA = _PREFIX.pack(2)
_PREFIXES: dict[type[Message], bytes] = {
    OffsetCommitKey: _OFFSET_COMMIT,
    GroupMetadataKey: _GROUP_METADATA,
    **{key: _PREFIX.pack(kind) for kind, (key, _) in RECORD_TYPES.items()},
}


def add_types(types: Mapping[int, RecordType]) -> None:
    """Of a kind of groups that is loaded when it is met (kinds.py)."""
    RECORD_TYPES.update(types)
    _PREFIXES.update({key: _PREFIX.pack(kind) for kind, (key, _) in types.items()})


class UnknownRecord(Exception):
    """The key is of a kind that this shard does not keep, or the value of a version that Kafka 4.4 does not know."""


def group_record(group_id: str, value: GroupMetadataValue | None) -> Record:
    return Record(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    value: OffsetCommitValue | None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> Record:
    expires = value is not None and value.expire_timestamp != -1
    version = OFFSET_COMMIT_EXPIRING_VERSION if expires else OFFSET_COMMIT_VERSION
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, value, version, producer_id, producer_epoch)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log; a tombstone has no value."""
    key, value, version, *_ = record
    prefix = _PREFIXES[type(key)]
    key_bytes = prefix + encode(key, 0)
    return key_bytes, None if value is None else _PREFIX.pack(version) + encode(value, version)


def encoded_size(value: GroupMetadataValue) -> int:
    return _PREFIX.size + len(encode(value, GROUP_METADATA_VERSION))


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    kind = _prefix(key)
    if kind == 0:
        # Kafka still reads commits of its first days: the key is the same but for the number.
        legacy, _ = decode(LegacyOffsetCommitKey, 0, key, _PREFIX.size)
        made = OffsetCommitKey(group=legacy.group, topic=legacy.topic, partition=legacy.partition)
        return _with_value(made, OffsetCommitValue, value)
    if kind == 1:
        return _with_value(decode(OffsetCommitKey, 0, key, _PREFIX.size)[0], OffsetCommitValue, value)
    if kind == 2:
        return _with_value(decode(GroupMetadataKey, 0, key, _PREFIX.size)[0], GroupMetadataValue, value)
    if kind not in RECORD_TYPES:
        from . import kinds  # which know this module

        kinds.load_later()
    if kind in RECORD_TYPES:
        key_class, value_class = RECORD_TYPES[kind]
        return _with_value(decode(key_class, 0, key, _PREFIX.size)[0], value_class, value)
    raise UnknownRecord(f"a record of kind {kind}")


def _with_value(key: Message, value_class: type[Message], value: Buffer | None) -> Record:
    if value is None:
        return Record(key, None)
    version = _prefix(value)
    if version not in value_class.SCHEMA.versions:
        raise UnknownRecord(f"{value_class.__name__} of version {version}")
    return Record(key, decode(value_class, version, value, _PREFIX.size)[0], version)


def _prefix(buf: Buffer) -> int:
    if len(buf) < _PREFIX.size:
        raise UnknownRecord("a record without a kind")
    kind: int = _PREFIX.unpack_from(buf)[0]
    return kind
