"""Framing of coordinator records: a version number before the key and before the value, as in Kafka.

A key is two bytes with the record type, followed by its message, always in version 0. A value is two bytes with its
version, followed by its message. A tombstone has no value.
"""

from __future__ import annotations

import struct

from ..protocol.buffer import Buffer
from ..protocol.codec import decode, encode
from ..protocol.schema import Message
from .result import Record

_NUMBER = struct.Struct(">h")
_KEY_VERSION = 0


class UnknownRecord(Exception):
    """The key has a record type that this shard does not keep, or the value has a version unknown to Kafka 4.4."""


def number_of(buf: Buffer) -> int:
    """Returns the record type of a key, or the version of a value."""
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
    """Decodes a key. Raises MalformedMessage, as `decode_value` does."""
    return decode(key_class, _KEY_VERSION, key, _NUMBER.size)[0]


def decode_value(key: Message, value_class: type[Message], value: Buffer | None) -> Record:
    """Returns the record with a decoded key. Raises UnknownRecord and MalformedMessage."""
    if value is None:
        return Record(key, None)
    version = number_of(value)
    if version not in value_class.SCHEMA.versions:
        raise UnknownRecord(f"{value_class.__name__} of version {version}")
    return Record(key, decode(value_class, version, value, _NUMBER.size)[0], version)


def encoded_size(value: Message, version: int) -> int:
    return _NUMBER.size + len(encode(value, version))
