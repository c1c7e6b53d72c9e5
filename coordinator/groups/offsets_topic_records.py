"""Records of `__consumer_offsets` as bytes, and back."""

from __future__ import annotations

from ...protocol.buffer import Buffer
from ...protocol.internal.consumer_offsets import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue
from ..record_framing import UnknownRecord, decode_key, decode_value, encode_framed, number_of
from ..result import Record
from .kinds import Kinds


def encode_record(kinds: Kinds, record: Record) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log; a tombstone has no value."""
    return encode_framed(kinds.prefixes[type(record.key)], record)


def decode_record(kinds: Kinds, key: Buffer, value: Buffer | None) -> Record:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    number = number_of(key)
    if number == 0:
        # Kafka still reads commits of its first days: the key is the same but for the number.
        legacy = decode_key(LegacyOffsetCommitKey, key)
        assert isinstance(legacy, LegacyOffsetCommitKey)
        made = OffsetCommitKey(group=legacy.group, topic=legacy.topic, partition=legacy.partition)
        return decode_value(made, OffsetCommitValue, value)
    found = kinds.record_type(number)
    if found is None:
        raise UnknownRecord(f"a record of kind {number}")
    key_class, value_class = found
    return decode_value(decode_key(key_class, key), value_class, value)
