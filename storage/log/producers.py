"""The state of a log's idempotent and transactional producers (KIP-98, KIP-360, KIP-890).

For each producer id: its epoch, the last five batches (sequence numbers and offsets), the coordinator epoch of its
last marker, and where its open transaction began. `check` decides what to answer to a producer; `update` follows
what was written, by whichever way it came, and is the only thing that changes the state.

```
state of the producer              the batch                                      result
its epoch, one of five batches     same epoch, same first and last sequence       that batch's offsets (a duplicate)
an epoch                           a smaller epoch                                INVALID_PRODUCER_EPOCH
an epoch                           a greater epoch, first sequence not 0          OUT_OF_ORDER_SEQUENCE_NUMBER
an epoch, a last sequence          same epoch, first sequence not the next one    OUT_OF_ORDER_SEQUENCE_NUMBER
an open transaction                not transactional                              INVALID_TXN_STATE
nothing (expired, deleted, new)    any                                            NONE: any sequence may come first
any of these; is being verified    first sequence above the lowest one asked for  OUT_OF_ORDER_SEQUENCE_NUMBER
no batch; verified, an epoch each  first sequence not 0                           OUT_OF_ORDER_SEQUENCE_NUMBER
```

After a change of the leader, a gap before the first batch that the new leader writes for a producer is
NOT_LEADER_OR_FOLLOWER instead: an earlier batch may be on its way (`check`).

As in Kafka 4.4, a duplicate older than five batches is out of order, and UNKNOWN_PRODUCER_ID and
DUPLICATE_SEQUENCE_NUMBER are no longer answered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.internal.producer_snapshot import ProducerEntry
from ...protocol.offsets import NO_OFFSET
from ...protocol.records.batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL_FLAG
from .verifications import Verification

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader

#: A producer may have five requests in flight: as many of its batches may come twice.
RETAINED_BATCHES = 5
#: Half the time that calling the class takes; this is done for every batch.
_new_batch = tuple.__new__


class ProducerBatch(NamedTuple):
    """A batch that is in the log already: what a duplicate is answered with."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE


class EndedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Producer:
    """The state of one producer id. `transaction_first_offset` is NO_OFFSET outside of a transaction."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_first_offset")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_first_offset = NO_OFFSET
        self.batches: deque[ProducerBatch] = deque(maxlen=RETAINED_BATCHES)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def duplicate_of(self, header: BatchHeader) -> ProducerBatch | None:
        """The retained batch with the very sequence numbers of `header`, if there is one."""
        if header.producer_epoch != self.epoch:
            return None
        last = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def begin_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def to_snapshot(self) -> ProducerEntry:
        last = self.batches[-1] if self.batches else ProducerBatch(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
        return ProducerEntry(
            producer_id=self.producer_id,
            epoch=self.epoch,
            last_sequence=last.last_sequence,
            last_offset=last.last_offset,
            offset_delta=last.offset_delta,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_first_offset=self.transaction_first_offset,
        )

    @classmethod
    def from_snapshot(cls, entry: ProducerEntry) -> Producer:
        producer = cls(entry.producer_id)
        producer.epoch = entry.epoch
        producer.coordinator_epoch = entry.coordinator_epoch
        producer.last_timestamp = entry.timestamp
        producer.transaction_first_offset = entry.current_txn_first_offset
        if entry.last_offset >= 0:
            batch = ProducerBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            producer.batches.append(batch)
        return producer


class Producers:
    """The state at `end_offset`: all batches below it have been followed."""

    __slots__ = ("_open", "_undecided", "by_id", "end_offset", "takeover_offset", "verifications")

    def __init__(self, end_offset: int = 0) -> None:
        self.by_id: dict[int, Producer] = {}
        self.end_offset = end_offset
        # Open transactions: first offset -> producer id. Offsets only grow, so the first key is the smallest.
        self._open: dict[int, int] = {}
        # Ended ones whose marker may not be committed yet: first offset -> offset of the marker.
        self._undecided: dict[int, int] = {}
        #: Producer id -> the verification of its transaction that is under way.
        self.verifications: dict[int, Verification] = {}
        #: The log end offset at which this broker took over from another leader; None when that is long ago. The former
        #: leader may have rejected a batch just then; librdkafka may send the next one here before that one.
        self.takeover_offset: int | None = None

    def check(self, header: BatchHeader) -> ErrorCode | ProducerBatch:
        """Returns the response to a producer's batch before it is written; ErrorCode.NONE if it may be written.

        For batches of clients with a producer id. A ProducerBatch means the log has the batch: the response is repeated.
        NOT_LEADER_OR_FOLLOWER means that an earlier batch may be on its way to this new leader.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            if self.verifications and self._is_ahead_of_verification(header, has_written=False):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            is_first = self.takeover_offset is None or header.base_sequence == 0
            return ErrorCode.NONE if is_first else ErrorCode.NOT_LEADER_OR_FOLLOWER
        batches = producer.batches
        if (
            batches
            and header.base_sequence == batches[-1][0] + 1
            and header.producer_epoch == producer.epoch
            and producer.transaction_first_offset == NO_OFFSET
            and not self.verifications
        ):
            # The usual batch: the next one of its producer. Its sequence numbers are not those of a retained batch.
            return ErrorCode.NONE
        duplicate = producer.duplicate_of(header)
        if duplicate is not None:
            return duplicate
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.verifications and self._is_ahead_of_verification(header, has_written=bool(producer.batches)):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not _in_sequence(producer, header):
            return self._gap_error(producer, header)
        if producer.transaction_first_offset != NO_OFFSET and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def _gap_error(self, producer: Producer, header: BatchHeader) -> ErrorCode:
        """Returns the error of a batch that does not continue its producer's last one."""
        if self.takeover_offset is None or producer.last_data_offset >= self.takeover_offset:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        is_new_epoch = producer.epoch != header.producer_epoch
        is_ahead = (header.base_sequence - producer.last_sequence) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_new_epoch or is_ahead else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def last_sequence(self, producer_id: int, epoch: int) -> int:
        """The last sequence number that is in the log of this producer and epoch, or NO_SEQUENCE."""
        producer = self.by_id.get(producer_id)
        return NO_SEQUENCE if producer is None or producer.epoch != epoch else producer.last_sequence

    def _is_ahead_of_verification(self, header: BatchHeader, *, has_written: bool) -> bool:
        verification = self.verifications.get(header.producer_id)
        return verification is not None and verification.is_out_of_order(header.base_sequence, has_written=has_written)

    def verify(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, bumps_epochs: bool) -> Verification:
        """To be kept while a transactional batch with the first sequence number `sequence` waits for the coordinator."""
        found = self.verifications.get(producer_id)
        if found is None:
            found = self.verifications[producer_id] = Verification(sequence, epoch, now_ms, bumps_epochs=bumps_epochs)
        else:
            found.asked_again(sequence, epoch)
        return found

    def update(self, header: BatchHeader) -> None:
        """Follows a data batch that was written."""
        base_offset, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(producer_id)
        if epoch != producer.epoch:
            producer.begin_epoch(epoch)
        last_sequence = NO_SEQUENCE if sequence == NO_SEQUENCE else (sequence + delta) & MAX_SEQUENCE
        producer.batches.append(_new_batch(ProducerBatch, (last_sequence, base_offset + delta, delta, timestamp)))
        producer.last_timestamp = timestamp
        if attributes & TRANSACTIONAL_FLAG:
            self.verifications.pop(producer_id, None)
            if producer.transaction_first_offset == NO_OFFSET:
                producer.transaction_first_offset = base_offset
                self._open[base_offset] = producer_id
        self.end_offset = base_offset + delta + 1

    def end_transaction(
        self, header: BatchHeader, timestamp: int, coordinator_epoch: int, *, aborted: bool
    ) -> EndedTransaction | None:
        """Follows a transaction's marker that was written; None when it ended nothing in this partition."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_id)
        self.verifications.pop(header.producer_id, None)
        first_offset = producer.transaction_first_offset
        producer.begin_epoch(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.transaction_first_offset = NO_OFFSET
        self.end_offset = header.next_offset
        if first_offset == NO_OFFSET:
            return None
        self._open.pop(first_offset, None)
        self._undecided[first_offset] = header.base_offset
        return EndedTransaction(header.producer_id, first_offset, header.base_offset, aborted)

    # ---- stability (KIP-98)

    @property
    def has_transactions(self) -> bool:
        return bool(self._open or self._undecided)

    def stable_after(self, ended: EndedTransaction) -> int:
        """The last stable offset that an aborted transaction's index entry carries."""
        return next(iter(self._open), ended.last_offset + 1)

    @property
    def has_open(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._open)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Returns the start of the first transaction that is open, or whose marker is not below the high watermark."""
        decided = [first for first, marker in self._undecided.items() if marker < high_watermark]
        for first in decided:
            del self._undecided[first]
        starts = [next(iter(self._open))] if self._open else []
        if self._undecided:
            starts.append(min(self._undecided))
        return min(starts, default=None)

    # ---- life

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that have written nothing for `producer.id.expiration.ms` and have no open transaction."""
        for producer in [p for p in self.by_id.values() if _is_expired(p, now_ms, expiration_ms)]:
            del self.by_id[producer.producer_id]
        for producer_id in [key for key, one in self.verifications.items() if now_ms - one.began_ms >= expiration_ms]:
            del self.verifications[producer_id]

    def load(self, entries: list[ProducerEntry], end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Starts from a snapshot taken at `end_offset`."""
        self.clear(end_offset)
        for entry in entries:
            producer = Producer.from_snapshot(entry)
            if not _is_expired(producer, now_ms, expiration_ms):
                self.by_id[producer.producer_id] = producer
        opened = sorted((p.transaction_first_offset, p.producer_id) for p in self.by_id.values())
        self._open = {first: producer_id for first, producer_id in opened if first != NO_OFFSET}

    def to_snapshot(self) -> list[ProducerEntry]:
        return [producer.to_snapshot() for producer in self.by_id.values()]

    def clear(self, end_offset: int) -> None:
        self.by_id.clear()
        self._open.clear()
        self._undecided.clear()
        self.end_offset = end_offset


def _in_sequence(producer: Producer, header: BatchHeader) -> bool:
    first = header.base_sequence
    if header.producer_epoch != producer.epoch:
        return first == 0
    last = producer.last_sequence
    return first == last + 1 or (first == 0 and last == MAX_SEQUENCE)


def _is_expired(producer: Producer, now_ms: int, expiration_ms: int) -> bool:
    return producer.transaction_first_offset == NO_OFFSET and now_ms - producer.last_timestamp >= expiration_ms
