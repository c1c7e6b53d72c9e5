"""One share partition: the delivery state of the records that a share group has acquired (KIP-932).

    partition = SharePartition(start_offset, batches, limits)      the persister's state
    acquire(partition, ...)           acquires records (acquisition.py); acquisitions are not written
    partition.acknowledge(...)        accepts, releases, rejects, or renews records that a member has acquired
    partition.release(member)         the member has gone: its records become available
    partition.deadline(), expire(now) expired locks: their records become available
    partition.take()                  -> Output: states for the persister, replies, and dead letters
    partition.written(id, error)      the persister's result for a write
    partition.dead_letter_written(letter)   a dead-letter record was written, or cannot be written

An acknowledgement takes effect once the persister has written it. Until then the record can neither be acquired nor
acknowledged again, and it goes back to its member if the write fails. An expired lock takes effect before its write.
Delivery counts are written with both, so after a crash a record may be redelivered as often as its deliveries were
not written, and not more often.

With a dead letter queue (KIP-1191) a given-up record is ARCHIVING first. Once that is written, it is sent to the
queue as a dead letter. It is ARCHIVED when the dead-letter record was written or could not be: a failing queue blocks
nothing. A leader that loads ARCHIVING records sends their dead letters again, so none is lost, and some may be in the
queue twice.

A share partition does not read the log: the caller of `acquire` passes the batches that it read. The partition's
leader keeps it, and drops it when the leader changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .dead_letters import DeadLetter
from .rejection import Rejection
from .share_runs import NO_DEADLINE, AcquiredRange, RecordState, Run, Runs
from .state_batches import StateBatch


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that the group or the broker configures; Kafka's keys, units last."""

    delivery_count: int = 5
    record_locks: int = 2_000
    record_lock_duration_ms: int = 30_000
    is_renew_enabled: bool = True
    has_dead_letters: bool = False


class AckType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_LEADS_TO = {
    AckType.GAP: RecordState.ARCHIVED,
    AckType.ACCEPT: RecordState.ACKNOWLEDGED,
    AckType.RELEASE: RecordState.AVAILABLE,
    AckType.REJECT: RecordState.ARCHIVED,
}


class AckBatch(NamedTuple):
    """An acknowledged range. `types`: one type for all offsets, or one per offset."""

    first: int
    last: int
    types: Sequence[int]


class Write(NamedTuple):
    """A state change for the persister. Writes are sent one after the other, in the order of their ids."""

    id: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class SharePartitionReply(NamedTuple):
    token: object
    validation_error: Rejection | None


class SharePartitionOutput(NamedTuple):
    writes: list[Write]
    replies: list[SharePartitionReply]
    dead_letter_records: list[DeadLetter]


class Acquirable(NamedTuple):
    """The records to acquire: `again` ones below the partition's end, and up to `room` new ones from there on."""

    again: int
    end_offset: int
    room: int


class Change(NamedTuple):
    """A changed run. `is_rejected`: a member rejected its records."""

    run: Run
    is_rejected: bool = False


class Pending(NamedTuple):
    """A write in flight. `is_tentative`: its runs are rolled back if it fails. `letters`: sent after the write."""

    token: object
    ranges: tuple[tuple[int, int], ...]
    is_tentative: bool
    dead_letter_records: tuple[DeadLetter, ...]


class SharePartition:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = (), limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.runs = Runs(start_offset)
        self._writes: list[Write] = []
        self._replies: list[SharePartitionReply] = []
        self._dead_letter_records: list[DeadLetter] = []
        self._pending: dict[int, Pending] = {}
        self._last_write_id = 0
        #: Records whose locks have expired since the partition was loaded.
        self.lock_timeouts = 0
        #: A lower bound of the next lock expiry.
        self.next_lock_end_ms = NO_DEADLINE
        self._load(batches)

    def _load(self, batches: Iterable[StateBatch]) -> None:
        """Loads the written states. Records without a written state are available, even if delivered before."""
        runs = self.runs
        for batch in sorted(batches):
            first = max(batch.first, runs.end)
            if first > batch.last:
                continue
            if first > runs.end:
                runs.append(Run(runs.end, first - 1, RecordState.AVAILABLE, 0))
            acquired_range = AcquiredRange(first, batch.last)
            runs.append(
                Run(first, batch.last, RecordState(batch.state), batch.delivery_count, acquired_range=acquired_range)
            )
            if batch.state == RecordState.ARCHIVING:
                # The reason is not written. Kafka infers it from the delivery count, too.
                is_rejected = batch.delivery_count < self.limits.delivery_count
                self._dead_letter_records.append(DeadLetter(first, batch.last, batch.delivery_count, is_rejected))
        self._advance()

    # Queries.

    @property
    def start_offset(self) -> int:
        """Returns the start offset: all records below it are in a terminal state."""
        return self.runs.start

    @property
    def end_offset(self) -> int:
        """Returns the end offset: no record from it on has been acquired."""
        return self.runs.end

    @property
    def delivery_complete_count(self) -> int:
        """Returns the number of records above the start offset in a terminal state (KIP-1226)."""
        return sum(len(run) for run in self.runs if run.is_terminal)

    @property
    def in_flight_count(self) -> int:
        return self.end_offset - self.start_offset - self.delivery_complete_count

    def next_fetch_offset(self) -> int:
        for run in self.runs:
            if run.is_available:
                return run.first
        return self.end_offset

    def can_acquire(self) -> bool:
        """Returns whether a record is available again, or the lock limit permits new records."""
        return self.next_fetch_offset() != self.end_offset or self.in_flight_count < self.limits.record_locks

    def acquirable(self) -> Acquirable:
        again = sum(len(run) for run in self.runs if run.is_available)
        return Acquirable(again, self.end_offset, self.limits.record_locks - self.in_flight_count)

    # Acknowledgements and releases.

    def acknowledge(self, token: object, member_id: str, batches: Iterable[AckBatch], now_ms: int) -> None:
        """Applies all batches, or none of them if any is invalid."""
        changed: list[Change] = []
        for batch in batches:
            validation_error = self._acknowledge_one(member_id, batch, changed, now_ms)
            if validation_error is not None:
                for run, _ in changed:
                    run.roll_back()
                self._replies.append(SharePartitionReply(token, validation_error))
                return
        self._write(token, changed, is_tentative=True)

    def _acknowledge_one(self, member_id: str, batch: AckBatch, changed: list[Change], now_ms: int) -> Rejection | None:
        if any(kind not in _LEADS_TO and kind != AckType.RENEW for kind in batch.types):
            return Rejection(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(batch.types)}")
        if batch.last < self.start_offset:
            return None
        if batch.first >= self.end_offset or batch.last >= self.end_offset:
            return self._past_the_end(batch)
        for first, last, kind in _alike(batch):
            first = max(first, self.start_offset)
            for run in self.runs.overlapping(first, last):
                validation_error = self._validate(run, member_id, kind)
                if validation_error is not None:
                    return validation_error
                if len(batch.types) > 1 and run.acquired_range is not None:
                    run.acquired_range.is_cut = True
            for run in self.runs.between(first, last):
                if kind == AckType.RENEW:
                    self._lock(run, member_id, now_ms)
                else:
                    is_rejected = kind == AckType.REJECT
                    run.begin(self._outcome(run, _LEADS_TO[AckType(kind)], is_rejected=is_rejected))
                    changed.append(Change(run, is_rejected))
        return None

    def _past_the_end(self, batch: AckBatch) -> Rejection:
        if not len(self.runs):
            words = "Batch record not found. The request batch offsets are not found in the cache."
            return Rejection(ErrorCode.INVALID_RECORD_STATE, words)
        which = "first" if batch.first >= self.end_offset else "last"
        words = f"Batch record not found. The {which} offset in request is past acquired records."
        return Rejection(ErrorCode.INVALID_REQUEST, words)

    def _validate(self, run: Run, member_id: str, kind: int) -> Rejection | None:
        words = None
        if run.state is not RecordState.ACQUIRED:
            whole = "The batch cannot be acknowledged. The batch is not in the acquired state."
            words = whole if run.is_whole else "The offset cannot be acknowledged. The offset is not acquired."
        elif run.before is not None:
            words = "The record state is invalid. The acknowledgement of delivery could not be completed."
        elif run.member_id != member_id:
            words = "Member is not the owner of batch record" if run.is_whole else "Member is not the owner of offset"
        elif kind == AckType.RENEW and not self.limits.is_renew_enabled:
            words = "Renewing acquisition locks is not enabled for the group."
        return None if words is None else Rejection(ErrorCode.INVALID_RECORD_STATE, words)

    def release(self, member_id: str) -> None:
        held = [r for r in self.runs if r.member_id == member_id and r.state is RecordState.ACQUIRED]
        for run in held:
            run.begin(self._outcome(run, RecordState.AVAILABLE))
        self._write(None, map(Change, held), is_tentative=True)

    def dead_letter_written(self, dead_letter: DeadLetter) -> None:
        """Archives the records of a dead letter, after its record was written or could not be."""
        found = self.runs.between(max(dead_letter.first, self.start_offset), dead_letter.last)
        dead = [run for run in found if run.state is RecordState.ARCHIVING and run.before is None]
        for run in dead:
            run.become(RecordState.ARCHIVED)
        self._write(None, map(Change, dead), is_tentative=False)

    def archive(self, first: int, last: int) -> None:
        """Archives available records that must not be delivered: aborted ones, or those no longer in the log."""
        for run in self.runs.between(first, last):
            if run.is_available:
                run.become(RecordState.ARCHIVED)
        self._advance()

    def archive_acquired(self, member_id: str, first: int, last: int) -> None:
        """Archives records of aborted transactions among those that a member has just acquired."""
        for run in self.runs.between(first, last):
            if run.state is RecordState.ACQUIRED and run.member_id == member_id and run.before is None:
                run.become(RecordState.ARCHIVED)
        self._advance()

    def log_start_moved(self, offset: int) -> None:
        """Drops deleted records below `offset`. Later acknowledgements of them are ignored."""
        end = self.end_offset
        self.runs.drop_below(offset)
        assert self.end_offset == max(end, offset)

    # Time.

    def deadline(self) -> int | None:
        return None if self.next_lock_end_ms == NO_DEADLINE else self.next_lock_end_ms

    def expire(self, now_ms: int) -> None:
        if now_ms < self.next_lock_end_ms:
            return
        ended = [run for run in self.runs if run.deadline_ms <= now_ms]
        for run in ended:
            run.become(self._outcome(run, RecordState.AVAILABLE))
        self.next_lock_end_ms = min((run.deadline_ms for run in self.runs), default=NO_DEADLINE)
        if ended:
            self.lock_timeouts += sum(map(len, ended))
            self._write(None, map(Change, ended), is_tentative=False)

    # Writing.

    def take(self) -> SharePartitionOutput:
        output = SharePartitionOutput(self._writes, self._replies, self._dead_letter_records)
        self._writes, self._replies, self._dead_letter_records = [], [], []
        return output

    def written(self, write_id: int, validation_error: Rejection | None) -> None:
        """Handles the persister's result of one write. Each write fails or succeeds on its own."""
        pending = self._pending.pop(write_id)
        for first, last in pending.ranges if pending.is_tentative else ():
            for run in self.runs.between(first, last):
                assert run.before is not None, run
                if validation_error is None:
                    run.before = None
                else:
                    run.roll_back()
                    self.next_lock_end_ms = min(self.next_lock_end_ms, run.deadline_ms)
        if pending.token is not None:
            self._replies.append(SharePartitionReply(pending.token, validation_error))
        if validation_error is None or not pending.is_tentative:
            self._dead_letter_records += pending.dead_letter_records
        self._advance()

    def abandon(self) -> list[object]:
        """Returns the tokens of requests that wait for a write. The partition or its state has another leader now."""
        waiting = [pending.token for pending in self._pending.values() if pending.token is not None]
        self._pending.clear()
        return waiting

    def _write(self, token: object, changes: Iterable[Change], *, is_tentative: bool) -> None:
        changed = list(changes)
        if not changed:
            if token is not None:
                self._replies.append(SharePartitionReply(token, None))
            return
        self._last_write_id += 1
        batches = tuple(StateBatch(run.first, run.last, int(run.state), run.delivery_count) for run, _ in changed)
        ranges = tuple((run.first, run.last) for run, _ in changed)
        dead_letter_records = tuple(
            DeadLetter(run.first, run.last, run.delivery_count, is_rejected)
            for run, is_rejected in changed
            if run.state is RecordState.ARCHIVING
        )
        self._pending[self._last_write_id] = Pending(token, ranges, is_tentative, dead_letter_records)
        self._writes.append(Write(self._last_write_id, self.start_offset, self.delivery_complete_count, batches))

    def _outcome(self, run: Run, state: RecordState, *, is_rejected: bool = False) -> RecordState:
        """Returns the new state of a run: archived, or archiving with a dead letter queue, if it is given up.

        A record is given up when a member rejects it, or when its delivery count has reached the limit.
        """
        if is_rejected or (state is RecordState.AVAILABLE and run.delivery_count >= self.limits.delivery_count):
            return RecordState.ARCHIVING if self.limits.has_dead_letters else RecordState.ARCHIVED
        return state

    def _lock(self, run: Run, member_id: str, now_ms: int) -> None:
        run.state, run.member_id = RecordState.ACQUIRED, member_id
        run.deadline_ms = now_ms + self.limits.record_lock_duration_ms
        self.next_lock_end_ms = min(self.next_lock_end_ms, run.deadline_ms)

    def give(self, run: Run, member_id: str, now_ms: int) -> None:
        """Lets a member acquire a run, for the duration of a lock."""
        assert run.is_available, run
        run.delivery_count += 1
        assert run.delivery_count <= self.limits.delivery_count, run
        self._lock(run, member_id, now_ms)

    def _advance(self) -> None:
        """Advances the start offset past runs that are settled, and joins like runs."""
        start = self.start_offset
        for run in self.runs:
            if not run.is_final:
                break
            start = run.last + 1
        self.runs.drop_below(start)
        self.runs.join_alike()


def _alike(batch: AckBatch) -> list[tuple[int, int, int]]:
    """Returns (first, last, type) for each range of consecutive offsets of one type."""
    if len(batch.types) == 1:
        return [(batch.first, batch.last, batch.types[0])]
    found: list[tuple[int, int, int]] = []
    for offset, kind in enumerate(batch.types, batch.first):
        if found and found[-1][2] == kind:
            found[-1] = (found[-1][0], offset, kind)
        else:
            found.append((offset, offset, kind))
    return found
