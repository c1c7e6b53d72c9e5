"""Compaction of one batch: computes the batch that replaces it, or none. Pure.

- A record stays when no later one has its key. Records of aborted transactions go at once.
- A tombstone (no value) stays for `delete.retention.ms` from the first cleaning that meets it, so that a reader
  that starts at the beginning sees the deletion. Its batch holds the time from which it may go: the delete horizon
  (KIP-534).
- The marker of a transaction goes like a tombstone, once all records of its transaction are gone.
- The last batch of each producer stays, without records if need be: it carries the last sequence number and epoch.
- The last batch of the cleaned range stays likewise, so that the end of the range is not lost.
- A batch keeps its base and last offset, its sequence numbers, its codec and its leader epoch whatever is taken out
  of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.offsets import NO_OFFSET
from ...protocol.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    TimestampType,
    seal,
    write_header,
)
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.record import encode_batch
from ..segments.poison import readable_records

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ...protocol.records.record import Record
    from ..segments.aborted import AbortedTransaction
    from .offset_map import OffsetMap


class LastOfProducer(NamedTuple):
    """The batch that must stay of an active producer: its last data batch, or its last marker if it has none."""

    last_data_offset: int
    epoch: int


class CleanedTransactions:
    """Follows the transactions through the batches of a log in order, and finds those that have no records left."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        # By producer: the open aborted transaction, and whether a batch of it was met.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self._retained: list[AbortedTransaction] = []

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            entry = self._coming.pop()
            self._aborted.setdefault(entry.producer_id, (entry, False))

    def meet_data(self, header: BatchHeader) -> bool:
        """Returns whether the batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        open_one = self._aborted.get(header.producer_id)
        if open_one is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = open_one[0], True
        return True

    def take_retained(self) -> list[AbortedTransaction]:
        """The aborted ones with batches left whose markers were met since the last call: a cleaned segment's index."""
        retained, self._retained = self._retained, []
        return retained

    def meet_marker(self, header: BatchHeader, kind: ControlType | None) -> bool:
        """Returns whether nothing of the transaction is left: its marker may go. `kind` is None for an emptied batch."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind is ControlType.ABORT:
            entry, has_batches = self._aborted.pop(header.producer_id, (None, False))
            if entry is not None and has_batches:
                self._retained.append(entry)
                return False
            return True
        if kind is ControlType.COMMIT:
            is_empty = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return is_empty
        return False


def marker_type(header: BatchHeader, batch: memoryview | bytes) -> ControlType | None:
    """Returns the type of a control batch; None if a cleaning has emptied it. KRaft ones do not occur.

    Raises Poisoned.
    """
    records = readable_records(header, batch)
    return control_type(records[0].key) if records else None


class Cleaner(NamedTuple):
    """A cleaning of one log. `end_offset` is the exclusive end of its range."""

    newest: OffsetMap
    transactions: CleanedTransactions
    last_of_producers: Mapping[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int
    end_offset: int

    def clean(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """The batch that takes this one's place: itself, another one, or none. Raises Poisoned."""
        is_marker = header.is_control
        if is_marker:
            discardable = self.transactions.meet_marker(header, marker_type(header, batch))
            empties = discardable and header.has_delete_horizon and header.base_timestamp <= self.now_ms
        else:
            discardable = empties = self.transactions.meet_data(header)
        must_stay = self._is_last_of_producer(header) or header.next_offset == self.end_offset
        if empties and not must_stay:
            return None
        records = [] if empties else readable_records(header, batch)
        kept = records if is_marker else [record for record in records if self._stays(header, record)]
        if not kept:
            return empty_batch(header) if must_stay else None
        expires = (is_marker and discardable) or (not is_marker and any(record.value is None for record in kept))
        sets_horizon = expires and not header.has_delete_horizon
        if len(kept) == header.record_count and not sets_horizon:
            return batch
        return self._rewritten(header, kept, sets_horizon)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.last_of_producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset != NO_OFFSET:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _stays(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self.newest.latest_offset:
            return True
        # A record without a key does not belong into a compacted log; Kafka drops it too.
        if record.key is None or record.offset < self.newest.newest(record.key):
            return False
        return record.value is not None or not header.has_delete_horizon or self.now_ms < header.base_timestamp

    def _rewritten(self, header: BatchHeader, kept: list[Record], sets_horizon: bool) -> bytes:
        horizon = header.base_timestamp if header.has_delete_horizon else None
        if sets_horizon:
            horizon = self.now_ms + self.delete_retention_ms
        logged = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        return encode_batch(
            kept,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            leader_epoch=header.leader_epoch,
            compression=header.compression,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            log_append_time=header.max_timestamp if logged else None,
            delete_horizon=horizon,
            transactional=header.is_transactional,
            control=header.is_control,
        )


def empty_batch(header: BatchHeader) -> bytes:
    """A batch without its records: offsets, sequence numbers, epoch and largest timestamp stay."""
    made = bytearray(HEADER_BYTES)
    kinds = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
    bare = header._replace(
        length=HEADER_BYTES - LOG_OVERHEAD,
        attributes=header.attributes & kinds,
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    write_header(made, 0, bare)
    seal(made, 0, HEADER_BYTES)
    return bytes(made)
