"""Records of `__consumer_offsets` as bytes, and back.

As Kafka 4.4 writes them: GroupMetadataValue 3, OffsetCommitValue 4, or 1 when the client asked for a retention time of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.internal.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.schema import Message
from ...protocol.varint import Buffer
from ..common import record_frames
from ..common.record_frames import UnknownRecord, decode_key, decode_value, encode_framed, number_of, prefix
from ..common.result import Record
from .consumer import record_types as consumer_records

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
#: The version that has an expiry of its own.
OFFSET_COMMIT_EXPIRING_VERSION = 1

#: The number that a key begins with -> key and value.
RecordType = tuple[type[Message], type[Message]]
RECORD_TYPES: dict[int, RecordType] = {
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    **consumer_records.RECORD_TYPES,
}
_PREFIXES: dict[type[Message], bytes] = {key: prefix(kind) for kind, (key, _) in RECORD_TYPES.items()}


def add_types(types: Mapping[int, RecordType]) -> None:
    """Of a kind of groups that is loaded when it is met (kinds.py)."""
    RECORD_TYPES.update(types)
    _PREFIXES.update({key: prefix(kind) for kind, (key, _) in types.items()})


def prefix_of(key_class: type[Message]) -> bytes:
    """What keys of this class begin with."""
    return _PREFIXES[key_class]


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
    return encode_framed(_PREFIXES[type(record.key)], record)


def encoded_size(value: GroupMetadataValue) -> int:
    return record_frames.encoded_size(value, GROUP_METADATA_VERSION)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    kind = number_of(key)
    if kind == 0:
        # Kafka still reads commits of its first days: the key is the same but for the number.
        legacy = decode_key(LegacyOffsetCommitKey, key)
        assert isinstance(legacy, LegacyOffsetCommitKey)
        made = OffsetCommitKey(group=legacy.group, topic=legacy.topic, partition=legacy.partition)
        return decode_value(made, OffsetCommitValue, value)
    if kind not in RECORD_TYPES:
        from . import kinds  # which know this module

        kinds.load_lazy_kinds()
    if kind not in RECORD_TYPES:
        raise UnknownRecord(f"a record of kind {kind}")
    key_class, value_class = RECORD_TYPES[kind]
    return decode_value(decode_key(key_class, key), value_class, value)
