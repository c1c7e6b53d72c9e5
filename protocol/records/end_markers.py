"""Markers of the ends of transactions in a partition (KIP-98), as brokers write them."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ..internal.control_records import EndTxnMarker
from . import batch
from .control import MARKERS, ControlType, encode_control
from .record import Record, encode_batch

if TYPE_CHECKING:
    from ..buffer import Buffer

_MARKER_ATTRIBUTES = batch.TRANSACTIONAL_FLAG | batch.CONTROL_FLAG
#: Coordinators whose markers a broker writes in turn.
_KEPT_PAYLOADS = 256

_PLAIN = Struct(">5shhbhib")
#: The body's length, no attributes, no difference of time and offset, a key of 4 bytes; a value of 6 bytes.
_PLAIN_START, _PLAIN_VALUE = b"\x20\x00\x00\x00\x08", 0x0C


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


def plain_marker(header: batch.BatchHeader, buffer: Buffer) -> PlainMarker | None:
    """Reads the marker of a batch without decoding its record; None for a batch in any other form."""
    if header.attributes != _MARKER_ATTRIBUTES or header.record_count != 1:
        return None
    if len(buffer) != batch.HEADER_BYTES + _PLAIN.size:
        return None
    start, version, kind, value_size, value_version, epoch, headers = _PLAIN.unpack_from(buffer, batch.HEADER_BYTES)
    if (start, version, value_size, value_version, headers) != (_PLAIN_START, 0, _PLAIN_VALUE, 0, 0):
        return None
    return PlainMarker(kind == ControlType.ABORT, epoch) if kind in MARKERS else None
