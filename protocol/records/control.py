"""Control batches: records that brokers write into a log, with the messages of `internal/control_records.py`.

The key of a record is a version and a type, and its value a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ..codec import MalformedMessage, decode, encode
from ..internal.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from . import batch
from .errors import InvalidBatch
from .record import Record, encode_batch

if TYPE_CHECKING:
    from ..schema import Message

_KEY = Struct(">hh")
_VERSION = Struct(">h")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


#: The message of each type. An end-of-transaction marker is preceded by its version; the others have it in their first
#: field.
_TABLES: dict[ControlType, type[Message]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
#: Types whose value has a version of its own before it.
MARKERS = (ControlType.ABORT, ControlType.COMMIT)


class ControlRecord(NamedTuple):
    type: ControlType
    message: Message


def control_type(key: bytes | None) -> ControlType | None:
    """Returns the type in a control record's key; None for an unknown type, which must be skipped.

    Raises InvalidBatch for an invalid key.
    """
    if key is None or len(key) < _KEY.size:
        raise InvalidBatch("the key of a control record is too short")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidBatch(f"the key of a control record has version {version}")
    return ControlType(number) if number in _TABLES else None


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """Decodes a control record; None for an unknown type. Raises InvalidBatch."""
    kind = control_type(key)
    if kind is None:
        return None
    if value is None or len(value) < _VERSION.size:
        raise InvalidBatch(f"the value of a {kind.name} control record is too short")
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise InvalidBatch(f"the value of a {kind.name} control record has version {version}")
    table = _TABLES[kind]
    readable = min(version, table.SCHEMA.versions.high)
    try:
        message, _ = decode(table, readable, value, _VERSION.size if kind in MARKERS else 0)
    except MalformedMessage as error:
        raise InvalidBatch(f"control record {kind.name}: {error}") from None
    return ControlRecord(kind, message)


def encode_control(kind: ControlType, message: Message) -> tuple[bytes, bytes]:
    """Returns (key, value) of a control record. A message that has a `version` is encoded in that version."""
    version = getattr(message, "version", 0)
    prefix = _VERSION.pack(version) if kind in MARKERS else b""
    return _KEY.pack(0, kind), prefix + encode(message, version)


def encode_control_batch(
    records: Sequence[ControlRecord], *, base_offset: int, timestamp: int, leader_epoch: int = batch.NO_LEADER_EPOCH
) -> bytes:
    """Returns a batch of KRaft control records, as the leader writes them into the log or a snapshot."""
    made = []
    for delta, (kind, content) in enumerate(records):
        key, value = encode_control(kind, content)
        made.append(Record(base_offset + delta, timestamp, key, value))
    return encode_batch(made, leader_epoch=leader_epoch, control=True)
