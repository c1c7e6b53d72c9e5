"""Poisoned batches: whole, with a right CRC, and not what their headers say. Readers stop there.

A broker that does not look at records takes such batches from producers, and a directory of it may be opened here.
They are no damage (damage.py): every replica has the same bytes. The cleaner keeps them as they are, reports them,
and goes on; `odradek log check` lists them, and `odradek log skip` puts an empty batch of the same offsets in the
place of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.records.batch import HEADER_BYTES
from ...protocol.records.compression import decompress
from ...protocol.records.errors import BatchError, InvalidBatch
from ...protocol.records.record import decode_batch
from ...protocol.records.walk import LONG_MAX, LONG_MIN, WHOLE, walk

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ...protocol.records.record import Record

_LONGS = 1 << 64
#: The most that one cleaning or verification reports: an operator has to examine the log anyway.
MOST_POISONED = 100


class PoisonedBatch(NamedTuple):
    base_offset: int
    last_offset: int
    #: The reason, in a few words.
    reason: str


class Poisoned(InvalidBatch):
    """The records of a batch cannot be read; its bytes are as they were written."""

    def __init__(self, header: BatchHeader, reason: str) -> None:
        self.batch = PoisonedBatch(header.base_offset, header.last_offset, reason)
        super().__init__(_words(self.batch))

    def __reduce__(self) -> tuple[object, ...]:
        return _poisoned, tuple(self.batch)


def _words(batch: PoisonedBatch) -> str:
    return f"the batch of offsets {batch.base_offset} to {batch.last_offset} is poisoned: {batch.reason}"


def _poisoned(*fields: Any) -> Poisoned:
    batch = PoisonedBatch(*fields)
    made = Poisoned.__new__(Poisoned, _words(batch))
    made.batch = batch
    return made


def readable_records(header: BatchHeader, batch: memoryview | bytes) -> list[Record]:
    """The records of a batch, with offsets in its range and order. Raises Poisoned."""
    reason = _fault_of_header(header)
    if reason is not None:
        raise Poisoned(header, reason)
    try:
        records = decode_batch(batch, 0, header)
    except BatchError as error:
        raise Poisoned(header, str(error)) from None
    before = header.base_offset - 1
    for record in records:
        if not before < record.offset <= header.last_offset:
            raise Poisoned(header, f"a record has offset {record.offset}")
        before = record.offset
        if not LONG_MIN <= record.timestamp <= LONG_MAX:
            record.timestamp = (record.timestamp - LONG_MIN) % _LONGS + LONG_MIN
    return records


def fault_of(header: BatchHeader, batch: memoryview | bytes) -> str | None:
    """Why consumers cannot read the batch, or None. Stricter than `readable_records`: some clients read less than others."""
    reason = _fault_of_header(header)
    if reason is not None:
        return reason
    try:
        payload = decompress(header.compression, memoryview(batch)[HEADER_BYTES : header.size])
        found = walk(payload, 0, header.record_count, header.base_timestamp)
        if found.fault != WHOLE:
            return f"its payload of {len(payload)} bytes does not contain {header.record_count} complete records"
        if found.disordered or header.record_count != header.last_offset_delta + 1:
            # As compaction leaves it, or not: offsets have to be compared.
            readable_records(header, batch)
    except Poisoned as poisoned:
        return poisoned.batch.reason
    except BatchError as error:
        return str(error)
    return None


def _fault_of_header(header: BatchHeader) -> str | None:
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records in {header.last_offset_delta + 1} offsets"
    return None
