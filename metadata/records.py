"""Metadata records: their framing in `__cluster_metadata`.

A record's value is three unsigned varints (frame version, record key, record version) and a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.codec import MalformedMessage, decode, lowered_joined_encoder
from ..protocol.internal import cluster_metadata as records
from ..protocol.schema import Message
from ..protocol.varint import encode_varint, varint
from . import metadata_version as levels

if TYPE_CHECKING:
    from ..protocol.buffer import Buffer

_FRAME_VERSION = 1

#: Record key to message class.
RECORD_CLASSES: dict[int, type[Message]] = {
    value.SCHEMA.key: value
    for value in vars(records).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message and value.SCHEMA.key is not None
}

#: The metadata.version from which a record version above 0 is written, highest first; only for records that have one.
_WRITTEN_VERSIONS: dict[type[Message], tuple[tuple[int, int], ...]] = {
    records.RegisterBrokerRecord: (
        (levels.CORDONED_LOG_DIRS, 4),
        (levels.DIRECTORY_ASSIGNMENT, 3),
        (levels.ZK_MIGRATION, 2),
        (levels.MINIMUM, 1),
    ),
    records.PartitionRecord: ((levels.ELIGIBLE_LEADER_REPLICAS, 2), (levels.DIRECTORY_ASSIGNMENT, 1)),
    records.PartitionChangeRecord: ((levels.ELIGIBLE_LEADER_REPLICAS, 2), (levels.DIRECTORY_ASSIGNMENT, 1)),
}

#: Class and version of a record -> its frame, and what encodes the message.
_FRAMED: dict[tuple[type[Message], int], tuple[bytes, Callable[[Message], bytes]]] = {}

#: The bytes of a frame whose varints have one byte each: of all that there are today.
_FRAME_BYTES = 3
#: Such frames that have been met, by their bytes.
_KINDS: dict[bytes, _Kind] = {}


def record_version(message: Message, metadata_version: int) -> int:
    """Returns the version in which a record is written at this `metadata_version`."""
    if isinstance(message, records.BrokerRegistrationChangeRecord):
        return _change_version(message)
    for level, version in _WRITTEN_VERSIONS.get(type(message), ()):
        if metadata_version >= level:
            return version
    return 0


def _change_version(change: records.BrokerRegistrationChangeRecord) -> int:
    """Returns the lowest version that has the fields in use, as Kafka writes it."""
    if change.cordoned_log_dirs is not None:
        return 3
    if change.log_dirs:
        return 2
    return 1 if change.in_controlled_shutdown else 0


def encode_record(message: Message, metadata_version: int) -> bytes:
    """Encodes the value of a record of the metadata log."""
    kind = type(message), record_version(message, metadata_version)
    frame, encode = _FRAMED.get(kind) or _framed(*kind)
    return frame + encode(message)


def _framed(cls: type[Message], version: int) -> tuple[bytes, Callable[[Message], bytes]]:
    key = cls.SCHEMA.key
    assert key is not None, f"{cls.__name__} is not a metadata record"
    frame = bytes((_FRAME_VERSION,)) + encode_varint(key) + encode_varint(version)
    framed = _FRAMED[cls, version] = frame, lowered_joined_encoder(cls, version)
    return framed


def decode_record(value: Buffer) -> Message:
    """Decodes a record value. Raises MalformedMessage if it is not a known metadata record."""
    frame = bytes(value[:_FRAME_BYTES])
    kind = _KINDS.get(frame)
    if kind is None:
        kind = _kind_of(value)
        if kind.end == _FRAME_BYTES:
            _KINDS[frame] = kind
    message, end = decode(kind.cls, kind.version, value, kind.end)
    if end != len(value):
        raise MalformedMessage(f"{len(value) - end} bytes after a {kind.cls.__name__}")
    return message


class _Kind(NamedTuple):
    """A class of records in one version. `end`: of their frame."""

    cls: type[Message]
    version: int
    end: int


def _kind_of(value: Buffer) -> _Kind:
    try:
        frame_version, position = varint(value, 0)
        key, position = varint(value, position)
        version, position = varint(value, position)
    except (ValueError, IndexError):
        raise MalformedMessage("the frame of a metadata record is cut short") from None
    cls = RECORD_CLASSES.get(key)
    if frame_version != _FRAME_VERSION or cls is None or version not in cls.SCHEMA.versions:
        raise MalformedMessage(f"unknown metadata record: frame {frame_version}, key {key}, version {version}")
    return _Kind(cls, version, position)
