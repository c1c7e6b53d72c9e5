"""Appends the decisions of a coordinator's shard as batches to its partition's log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...coordinator.result import Record
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import NO_SEQUENCE
from ...protocol.records.compression import Compression
from ...protocol.records.record import Record as BatchRecord
from ...protocol.records.record import encode_batch

if TYPE_CHECKING:
    from ..partitions.hosted_partition import HostedPartition

Encode = Callable[[Record], tuple[bytes, bytes | None]]
#: The maximum size of a record in a batch without its key and value.
RECORD_FRAME_BYTES = 32


def append_records(
    partition: HostedPartition, records: Iterable[Record], encode: Encode, compression: Compression, now_ms: int
) -> tuple[ErrorCode, int]:
    """Appends the records. Returns an error and the offset after the last record. Uses one batch, or more if one would
    exceed the topic's limit.
    """
    # Records, and the id and epoch of the producer whose transaction they belong to; -1 for most records.
    batches: list[tuple[list[BatchRecord], tuple[int, int]]] = []
    limit, size = partition.rules.max_message_bytes, 0
    for record in records:
        key, value = encode(record)
        needs = len(key) + len(value or b"") + RECORD_FRAME_BYTES
        if not batches or size + needs > limit or batches[-1][1] != record[3:]:
            batches.append(([], record[3:]))
            size = 0
        size += needs
        batch = batches[-1][0]
        batch.append(BatchRecord(len(batch), now_ms, key, value))
    for batch, (producer_id, producer_epoch) in batches:
        encoded = encode_batch(
            batch,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=NO_SEQUENCE if producer_id < 0 else 0,
            transactional=producer_id >= 0,
        )
        result = partition.append_own(encoded, now_ms)
        if result.error:
            return ErrorCode(result.error), -1
    return ErrorCode.NONE, result.end_offset


def error_for_clients(error: ErrorCode) -> ErrorCode:
    """Maps an error of the log to the error that group clients expect."""
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return error
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
