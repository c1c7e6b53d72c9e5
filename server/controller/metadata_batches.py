"""Batches of `__cluster_metadata`: metadata records and KRaft's control records, encoded and decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...metadata.records import decode_record, encode_record
from ...protocol.records.batch import HEADER_BYTES, BatchHeader, check_crc, iter_headers
from ...protocol.records.control import decode_control
from ...protocol.records.errors import CorruptBatch
from ...protocol.records.record import Record, decode_batch, encode_batch
from ...protocol.schema import Message
from .quorum_voters import QuorumVoters

#: The maximum size of a batch, as in Kafka; a reader reads a whole batch at once.
MAX_BATCH_BYTES = 8 << 20
#: The number of records per batch when they need not be committed together.
RECORDS_PER_BATCH = 1024
#: The size of a record without key and headers, besides its value, at most.
_RECORD_BYTES = 32


class MetadataBatch(NamedTuple):
    header: BatchHeader
    #: Metadata records; empty for a control batch.
    records: Sequence[Message]


def decode_batches(data: bytes, quorum: QuorumVoters) -> Iterator[MetadataBatch]:
    """Decodes every batch of `data`. The content of control batches goes to `quorum`.

    Raises CorruptBatch, InvalidBatch, MalformedMessage.
    """
    for header, records in _decode_batches(data, quorum):
        yield MetadataBatch(header, [decode_record(record.value or b"") for record in records])


def decode_one_by_one(data: bytes, quorum: QuorumVoters) -> Iterator[Message]:
    """Decodes the metadata records of every batch lazily. Otherwise as `decode_batches`."""
    for _, records in _decode_batches(data, quorum):
        for record in records:
            yield decode_record(record.value or b"")


def _decode_batches(data: bytes, quorum: QuorumVoters) -> Iterator[tuple[BatchHeader, Sequence[Record]]]:
    """Yields each batch header with its records; control batches yield no records."""
    end = 0
    for position, header in iter_headers(data):
        check_crc(data, position, header)
        records = decode_batch(data, position, header)
        if header.is_control:
            for record in records:
                control = decode_control(record.key, record.value)
                if control is not None:
                    quorum.learn(control.message)
        yield header, () if header.is_control else records
        end = position + header.size
    if end != len(data):
        raise CorruptBatch(f"{len(data) - end} bytes after the last whole batch")


class BatchTooLarge(Exception):
    """Records that must be committed together do not fit in a batch of the metadata log."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The request needs a record batch of {size} bytes in the metadata log; the limit is {MAX_BATCH_BYTES} bytes."
        )


def encode_records(
    records: Sequence[Message], base_offset: int, epoch: int, timestamp_ms: int, metadata_version: int
) -> bytes:
    """Encodes the records as one batch. Raises BatchTooLarge."""
    values = [encode_record(record, metadata_version) for record in records]
    batch = _encoded(values, base_offset, epoch, timestamp_ms)
    if len(batch) > MAX_BATCH_BYTES:
        raise BatchTooLarge(len(batch))
    return batch


def encode_in_batches(
    records: Iterable[Message], base_offset: int, epoch: int, timestamp_ms: int, metadata_version: int
) -> Iterator[bytes]:
    """Yields batches with the records, which need not be committed together. A batch has RECORDS_PER_BATCH records at
    most, and MAX_BATCH_BYTES unless a record alone is larger.
    """
    values: list[bytes] = []
    size = HEADER_BYTES
    for record in records:
        value = encode_record(record, metadata_version)
        if values and (len(values) >= RECORDS_PER_BATCH or size + len(value) + _RECORD_BYTES > MAX_BATCH_BYTES):
            yield _encoded(values, base_offset, epoch, timestamp_ms)
            base_offset += len(values)
            values, size = [], HEADER_BYTES
        values.append(value)
        size += len(value) + _RECORD_BYTES
    if values:
        yield _encoded(values, base_offset, epoch, timestamp_ms)


def _encoded(values: Sequence[bytes], base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    made = [Record(base_offset + delta, timestamp_ms, None, value) for delta, value in enumerate(values)]
    return encode_batch(made, leader_epoch=epoch)
