"""Control records: markers that the brokers write into a log.

A control batch holds records whose key is a version and a type, and whose value is a message of the tables below. One
record marks the end of a transaction (KIP-98). KRaft's log and snapshots have records for a new leader, the header and
footer of a snapshot, kraft.version and the voters (KIP-595, KIP-630, KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from ..codec import MalformedMessage, decode, encode
from ..schema import INT16, INT32, INT64, STRING, UINT16, UUID, Message, array, message, struct, wire
from ..varint import Buffer
from . import batch
from .errors import InvalidBatch
from .record import Record, encode_batch

_KEY = Struct(">hh")
_VERSION = Struct(">h")


# ---- the tables
#
# A new leader writes LeaderChange as the first record of its epoch (KIP-595). Version 1 has directory ids, but no release
# of Kafka writes or reads it. A snapshot begins with a header and ends with a footer (KIP-630). KRaftVersion and Voters
# hold the kraft.version and the voters of the quorum (KIP-853).


@message("0")
class ControlRecordTypeSchema(Message):
    type: int = wire(INT16)


@message("0")
class EndTxnMarker(Message):
    coordinator_epoch: int = wire(INT32)


@struct
class LeaderChangeVoter(Message):
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID, "1+")


@message("0-1", flexible="0+")
class LeaderChangeMessage(Message):
    version: int = wire(INT16)
    leader_id: int = wire(INT32)
    voters: list[LeaderChangeVoter] = wire(array(LeaderChangeVoter))
    granting_voters: list[LeaderChangeVoter] = wire(array(LeaderChangeVoter))


@message("0", flexible="0+")
class SnapshotHeaderRecord(Message):
    version: int = wire(INT16)
    last_contained_log_timestamp: int = wire(INT64)


@message("0", flexible="0+")
class SnapshotFooterRecord(Message):
    version: int = wire(INT16)


@message("0", flexible="0+")
class KRaftVersionRecord(Message):
    version: int = wire(INT16)
    kraft_version: int = wire(INT16)


@struct
class Endpoint(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@struct
class KRaftVersionFeature(Message):
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@struct
class VotersVoter(Message):
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    endpoints: list[Endpoint] = wire(array(Endpoint))
    kraft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)


@message("0", flexible="0+")
class VotersRecord(Message):
    version: int = wire(INT16)
    voters: list[VotersVoter] = wire(array(VotersVoter))


# ---- batches of them


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
_MARKERS = (ControlType.ABORT, ControlType.COMMIT)


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
        message, _ = decode(table, readable, value, _VERSION.size if kind in _MARKERS else 0)
    except MalformedMessage as error:
        raise InvalidBatch(f"control record {kind.name}: {error}") from None
    return ControlRecord(kind, message)


def encode_control(kind: ControlType, message: Message) -> tuple[bytes, bytes]:
    """Returns (key, value) of a control record. A message that has a `version` is encoded in that version."""
    version = getattr(message, "version", 0)
    prefix = _VERSION.pack(version) if kind in _MARKERS else b""
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


def encode_end_transaction(
    committed: bool,
    *,
    base_offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    leader_epoch: int = batch.NO_LEADER_EPOCH,
) -> bytes:
    """Returns the batch that ends a transaction in a partition: one marker, with the producer's id and epoch."""
    payload = _marker_payload(committed, coordinator_epoch)
    fields = (
        base_offset, batch.HEADER_BYTES - batch.LOG_OVERHEAD + len(payload), leader_epoch, batch.MAGIC, 0,
        _MARKER_ATTRIBUTES, 0, timestamp, timestamp, producer_id, producer_epoch, batch.NO_SEQUENCE, 1,
    )  # fmt: skip
    return batch.sealed(fields, payload)


_MARKER_ATTRIBUTES = batch.TRANSACTIONAL_FLAG | batch.CONTROL_FLAG
#: Coordinators whose markers a broker writes in turn.
_KEPT_PAYLOADS = 256


@lru_cache(_KEPT_PAYLOADS)
def _marker_payload(committed: bool, coordinator_epoch: int) -> bytes:
    """Returns the record of a marker: it has neither the producer nor, by itself, a time or an offset."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    key, value = encode_control(kind, EndTxnMarker(coordinator_epoch=coordinator_epoch))
    return encode_batch([Record(0, 0, key, value)])[batch.HEADER_BYTES :]


class PlainMarker(NamedTuple):
    """The end of a transaction in the form that brokers write."""

    aborted: bool
    coordinator_epoch: int


_PLAIN = Struct(">5shhbhib")
#: The body's length, no attributes, no difference of time and offset, a key of 4 bytes; a value of 6 bytes.
_PLAIN_START, _PLAIN_VALUE = b"\x20\x00\x00\x00\x08", 0x0C


def plain_marker(header: batch.BatchHeader, buffer: Buffer) -> PlainMarker | None:
    """Reads the marker of a batch without decoding its record; None for a batch in any other form."""
    if header.attributes != _MARKER_ATTRIBUTES or header.record_count != 1:
        return None
    if len(buffer) != batch.HEADER_BYTES + _PLAIN.size:
        return None
    start, version, kind, value_size, value_version, epoch, headers = _PLAIN.unpack_from(buffer, batch.HEADER_BYTES)
    if (start, version, value_size, value_version, headers) != (_PLAIN_START, 0, _PLAIN_VALUE, 0, 0):
        return None
    return PlainMarker(kind == ControlType.ABORT, epoch) if kind in _MARKERS else None
