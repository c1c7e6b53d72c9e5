"""How records stand in the coordinators' topics: two bytes that say what the key is of, and its message; likewise the value,
whose two bytes are its version. A tombstone has no value. Keys are all of version 0.
"""

from __future__ import annotations

import struct

from ..protocol.codec import decode, encode
from ..protocol.schema import Message
from ..protocol.varint import Buffer
from .result import Record

_NUMBER = struct.Struct(">h")
_KEY_VERSION = 0


class UnknownRecord(Exception):
    """The key is of a kind that this shard does not keep, or the value of a version that Kafka 4.4 does not know."""


def number_of(buf: Buffer) -> int:
    """What a key is of; the version of a value."""
    if len(buf) < _NUMBER.size:
        raise UnknownRecord("a record without a kind")
    number: int = _NUMBER.unpack_from(buf)[0]
    return number


def prefix(number: int) -> bytes:
    return _NUMBER.pack(number)


def encode_framed(key_prefix: bytes, record: Record) -> tuple[bytes, bytes | None]:
    key, value, version, *_ = record
    key_bytes = key_prefix + encode(key, _KEY_VERSION)
    return key_bytes, None if value is None else _NUMBER.pack(version) + encode(value, version)


def decode_key(key_class: type[Message], key: Buffer) -> Message:
    """Raises MalformedMessage, as `decode_value` does."""
    return decode(key_class, _KEY_VERSION, key, _NUMBER.size)[0]


def decode_value(key: Message, value_class: type[Message], value: Buffer | None) -> Record:
    """The record of a key that is decoded already. Raises UnknownRecord, and MalformedMessage."""
    if value is None:
        return Record(key, None)
    version = number_of(value)
    if version not in value_class.SCHEMA.versions:
        raise UnknownRecord(f"{value_class.__name__} of version {version}")
    return Record(key, decode(value_class, version, value, _NUMBER.size)[0], version)


def encoded_size(value: Message, version: int) -> int:
    return _NUMBER.size + len(encode(value, version))
