"""One share partition: the delivery state of the records that a share group has acquired (KIP-932).

    partition = SharePartition(start_offset, batches, limits)      the persister's state
    acquire(partition, ...)           acquires records; acquisitions are not written
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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

from ..protocol.errors import ErrorCode
from ..protocol.records.batch import HEADER_BYTES
from ..protocol.records.record import Header, Record, encoded_size
from .share_runs import NO_DEADLINE, AcquiredRange, RecordState, Run, Runs
from .share_state import StateBatch

# ---- dead-letter records
#
# Dead-letter records are the copies of archived records in the dead letter queue of a share group (KIP-1191). Pure.
#
#     validation_error(group_id, queue) the reason why the queue cannot be written, or None
#     pack(origin, letter, first, ...)  the records of the next batch
#
# A dead letter is a range of offsets that were given up for the same reason. Each of its records becomes one record
# in the queue's topic, whose headers give the origin and the reason. Key and value are copied if the group's
# configuration enables it; the record's own headers are never copied. Header names and messages are Kafka's: people
# search for them.

#: Attempts to write a dead-letter record, and to create the topic. The backoff doubles with each attempt.
MOST_TRIES = 5
FIRST_BACKOFF_MS = 1_000
MOST_BACKOFF_MS = 30_000
#: The backoff varies by up to this fraction in both directions.
JITTER = 0.2

#: Prefix of Kafka's internal topics.
_INTERNAL = "__"


class DeadLetter(NamedTuple):
    """A range of given-up records. `is_rejected`: a member rejected them; else the delivery count limit was reached."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool

    @property
    def cause(self) -> str:
        return "Offset rejected by client." if self.is_rejected else "Offset delivery count exceeded the threshold."


class Queue(NamedTuple):
    """Configuration and state of a group's dead letter queue. `topic` is empty if the group has no queue."""

    topic: str
    prefix: str
    is_there: bool
    #: The topic's configuration permits its use as a dead letter queue.
    is_enabled: bool
    #: A missing topic is created.
    is_created: bool


class Origin(NamedTuple):
    """The share partition that dead letters come from."""

    group_id: str
    topic: str
    partition: int


class Content(NamedTuple):
    key: bytes | None
    value: bytes | None


class Contents(NamedTuple):
    """Records by offset, up to `last`. Offsets missing below `last` cannot be read; those above were not read yet."""

    records: Mapping[int, Content]
    last: int


class Packed(NamedTuple):
    """The records of one batch. `size`: the batch's size with its header."""

    records: list[Record]
    size: int
    next_offset: int


def validation_error(group_id: str, queue: Queue) -> str | None:
    topic = queue.topic
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if topic.startswith(_INTERNAL):
        return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}."
    if queue.is_there and not queue.is_enabled:
        return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {topic}."
    if not queue.is_there and not queue.is_created:
        words = "DLQ topic does not exist and auto create is disabled on cluster for share group"
        return f"{words}: {group_id}, topic: {topic}."
    if not topic.startswith(queue.prefix):
        return (
            f"Configured DLQ topic name does not comply with the DLQ topic prefix in share group: {group_id}, "
            f"topic: {topic}, prefix: {queue.prefix}."
        )
    return None


def destination(partition: int, partitions: int) -> int:
    """Returns the partition of the queue's topic for records from `partition`."""
    return partition % partitions


def backoff_ms(tries: int, rng: float) -> int:
    """Returns the backoff after `tries` failed attempts. `rng`: from 0 to 1."""
    return min(MOST_BACKOFF_MS, int(FIRST_BACKOFF_MS * 2**tries * (1 - JITTER + 2 * JITTER * rng)))


def pack(
    origin: Origin, dead_letter: DeadLetter, first: int, contents: Contents, now_ms: int, max_message_bytes: int
) -> Packed:
    """Packs records from `first` on into one batch of at most `max_message_bytes`.

    The batch has at least one record, even a larger one: the topic's own limit decides on that record.
    """
    records: list[Record] = []
    size = HEADER_BYTES
    for offset in range(first, max(first, min(dead_letter.last, contents.last)) + 1):
        key, value = contents.records.get(offset, _NOTHING)
        record = Record(len(records), now_ms, key, value, _headers(origin, dead_letter, offset))
        record_bytes = encoded_size(record, base_timestamp=now_ms)
        if records and size + record_bytes > max_message_bytes:
            break
        records.append(record)
        size += record_bytes
        if size > max_message_bytes:
            break
    return Packed(records, size, first + len(records))


_NOTHING = Content(None, None)


def _headers(origin: Origin, dead_letter: DeadLetter, offset: int) -> list[Header]:
    return [
        ("__dlq.errors.topic", origin.topic.encode()),
        ("__dlq.errors.partition", b"%d" % origin.partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", origin.group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % dead_letter.delivery_count),
        ("__dlq.errors.message", dead_letter.cause.encode()),
    ]


# ---- the share partition


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


class ValidationError(NamedTuple):
    error: ErrorCode
    message: str | None


class Write(NamedTuple):
    """A state change for the persister. Writes are sent one after the other, in the order of their ids."""

    id: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Reply(NamedTuple):
    token: object
    validation_error: ValidationError | None


class Output(NamedTuple):
    writes: list[Write]
    replies: list[Reply]
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
        self._replies: list[Reply] = []
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

    def acknowledge(self, token: object, member_id: str, batches: Iterable[AckBatch], now: int) -> None:
        """Applies all batches, or none of them if any is invalid."""
        changed: list[Change] = []
        for batch in batches:
            validation_error = self._acknowledge_one(member_id, batch, changed, now)
            if validation_error is not None:
                for run, _ in changed:
                    run.roll_back()
                self._replies.append(Reply(token, validation_error))
                return
        self._write(token, changed, is_tentative=True)

    def _acknowledge_one(
        self, member_id: str, batch: AckBatch, changed: list[Change], now: int
    ) -> ValidationError | None:
        if any(kind not in _LEADS_TO and kind != AckType.RENEW for kind in batch.types):
            return ValidationError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(batch.types)}")
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
                    self._lock(run, member_id, now)
                else:
                    is_rejected = kind == AckType.REJECT
                    run.begin(self._outcome(run, _LEADS_TO[AckType(kind)], is_rejected=is_rejected))
                    changed.append(Change(run, is_rejected))
        return None

    def _past_the_end(self, batch: AckBatch) -> ValidationError:
        if not len(self.runs):
            words = "Batch record not found. The request batch offsets are not found in the cache."
            return ValidationError(ErrorCode.INVALID_RECORD_STATE, words)
        which = "first" if batch.first >= self.end_offset else "last"
        words = f"Batch record not found. The {which} offset in request is past acquired records."
        return ValidationError(ErrorCode.INVALID_REQUEST, words)

    def _validate(self, run: Run, member_id: str, kind: int) -> ValidationError | None:
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
        return None if words is None else ValidationError(ErrorCode.INVALID_RECORD_STATE, words)

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

    def expire(self, now: int) -> None:
        if now < self.next_lock_end_ms:
            return
        ended = [run for run in self.runs if run.deadline_ms <= now]
        for run in ended:
            run.become(self._outcome(run, RecordState.AVAILABLE))
        self.next_lock_end_ms = min((run.deadline_ms for run in self.runs), default=NO_DEADLINE)
        if ended:
            self.lock_timeouts += sum(map(len, ended))
            self._write(None, map(Change, ended), is_tentative=False)

    # Writing.

    def take(self) -> Output:
        output = Output(self._writes, self._replies, self._dead_letter_records)
        self._writes, self._replies, self._dead_letter_records = [], [], []
        return output

    def written(self, write_id: int, validation_error: ValidationError | None) -> None:
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
            self._replies.append(Reply(pending.token, validation_error))
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
                self._replies.append(Reply(token, None))
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

    def _lock(self, run: Run, member_id: str, now: int) -> None:
        run.state, run.member_id = RecordState.ACQUIRED, member_id
        run.deadline_ms = now + self.limits.record_lock_duration_ms
        self.next_lock_end_ms = min(self.next_lock_end_ms, run.deadline_ms)

    def give(self, run: Run, member_id: str, now: int) -> None:
        """Lets a member acquire a run, for the duration of a lock."""
        assert run.is_available, run
        run.delivery_count += 1
        assert run.delivery_count <= self.limits.delivery_count, run
        self._lock(run, member_id, now)

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


# Acquisition: selects the records that a member acquires from the batches that were read for it.
#
# Records that are available again come first, in offset order. Records that were never delivered follow. Acquisition
# takes whole batches, so that nothing is cut or copied: a member may get somewhat more than it requested, unless it
# requests a strict limit (KIP-1206). Records that failed often are delivered in ever smaller numbers, and finally one
# at a time, so that one bad record does not use up the deliveries of its neighbours.


class FetchedBatch(Protocol):
    """A batch that was read: its offset range."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


class AcquireRequest(NamedTuple):
    """The limits of one acquisition. `batch_size`: the records per acquired range, as far as batch ends permit."""

    max_records: int
    batch_size: int
    is_record_limit: bool = False


class Acquired(NamedTuple):
    first: int
    last: int
    delivery_count: int


def acquire(
    partition: SharePartition,
    member_id: str,
    request: AcquireRequest,
    fetch_offset: int,
    batches: Sequence[FetchedBatch],
    now: int,
) -> list[Acquired]:
    """Acquires records for a member. `batches`: the log's batches from `fetch_offset` on, in order; some or all."""
    if not batches or request.max_records <= 0 or batches[-1].last_offset < partition.start_offset:
        return []
    first, last = max(batches[0].base_offset, partition.start_offset), batches[-1].last_offset
    room, last = _room(partition, request.max_records, fetch_offset, last)
    if room <= 0:
        return []
    _archive_holes(partition, fetch_offset, first)
    taking = _Taking(partition, member_id, request, room, batches, now)
    taking.take_again(first, min(last, partition.end_offset - 1))
    if not taking.is_full and last >= partition.end_offset:
        taking.take_new(max(first, partition.end_offset), last)
    return taking.acquired


def _room(partition: SharePartition, max_records: int, fetch_offset: int, last: int) -> tuple[int, int]:
    """Returns the maximum number of records and the last offset.

    The limit of record locks does not apply below the partition's end, where records are in flight already.
    """
    room = min(max_records, partition.limits.record_locks - partition.in_flight_count)
    end = partition.end_offset
    if room <= 0 and fetch_offset < end:
        return min(max_records, end - fetch_offset), min(last, end - 1)
    return room, last


def _archive_holes(partition: SharePartition, fetch_offset: int, first: int) -> None:
    """Archives available records between `fetch_offset` and `first`: the log has them no longer (compaction)."""
    if fetch_offset < first:
        for run in partition.runs.overlapping(fetch_offset, first - 1):
            if run.is_available:
                partition.archive(max(run.first, fetch_offset), min(run.last, first - 1))


class _Taking:
    def __init__(
        self,
        partition: SharePartition,
        member_id: str,
        request: AcquireRequest,
        room: int,
        batches: Sequence[FetchedBatch],
        now: int,
    ) -> None:
        self.partition = partition
        self.member_id = member_id
        self.request = request
        self.left = room
        self.batches = batches
        self.now = now
        self.acquired: list[Acquired] = []
        self.is_throttled = False
        #: A record with at least this many deliveries counts as failing.
        self.throttle_from = max(2, -(-partition.limits.delivery_count // 2))

    @property
    def is_full(self) -> bool:
        return self.left <= 0 or self.is_throttled

    def take_again(self, first: int, last: int) -> None:
        """Acquires the available records between `first` and `last`, all of them below the partition's end."""
        if first > last:
            return
        found = self.partition.runs.overlapping(first, last)
        for acquired_range, runs in groupby(found, key=attrgetter("acquired_range")):
            if self.is_full:
                return
            available = [run for run in runs if run.is_available]
            if not available:
                continue
            if any(run.delivery_count >= self.throttle_from for run in available):
                # Failing records are delivered without others: now if nothing is acquired yet, else by the next fetch.
                self.is_throttled = True
                if not self.acquired:
                    self._give_few(available, acquired_range, first, last)
                return
            for run in available:
                low = max(run.first, first)
                is_limited = acquired_range is None or self.request.is_record_limit
                high = min(run.last, last, self._end_of_request(low) if is_limited else last)
                for low_one, high_one in self._divided(low, high) if acquired_range is None else ((low, high),):
                    self._give_between(low_one, high_one)

    def _give_few(self, available: Sequence[Run], acquired_range: AcquiredRange | None, first: int, last: int) -> None:
        """Acquires fewer failing records with each delivery: half of the range, a quarter, finally one record."""
        limits, given, most = self.partition.limits, 0, 0
        for run in available:
            is_last_time = limits.delivery_count > 2 and run.delivery_count == limits.delivery_count - 1
            if is_last_time and given:
                return
            if not most and run.delivery_count >= self.throttle_from:
                size = len(run if acquired_range is None else acquired_range)
                most = max(1, size >> (run.delivery_count - self.throttle_from + 1))
            low, high = max(run.first, first), min(run.last, last)
            room = 1 if is_last_time else self.left if self.request.is_record_limit else len(run)
            if given < most:
                room = min(room, most - given)
            high = min(high, low + room - 1)
            self._give_between(low, high)
            given += high - low + 1
            if is_last_time or given == most or (self.request.is_record_limit and self.left <= 0):
                return

    def _give_between(self, first: int, last: int) -> None:
        for run in self.partition.runs.between(first, last):
            self._give(run)

    def take_new(self, first: int, last: int) -> None:
        runs, acquired_range = self.partition.runs, None
        if first > runs.end:
            # The log has no records at these offsets.
            runs.append(Run(runs.end, first - 1, RecordState.ARCHIVED, 0))
        last = min(last, self._end_of_request(first))
        for low, high in self._divided(first, last):
            acquired_range = AcquiredRange(low, high)
            run = Run(low, high, RecordState.AVAILABLE, 0, acquired_range=acquired_range)
            runs.append(run)
            self._give(run)
        # With a strict limit the rest of the batch is acquired next.
        ends_at = next((b.last_offset for b in self.batches if b.last_offset >= last), last)
        if ends_at > last and acquired_range is not None:
            acquired_range.last, acquired_range.is_cut = ends_at, True
            runs.append(Run(last + 1, ends_at, RecordState.AVAILABLE, 0, acquired_range=acquired_range))

    def _give(self, run: Run) -> None:
        if run.acquired_range is None:
            run.acquired_range = AcquiredRange(run.first, run.last)
        self.partition.give(run, self.member_id, self.now)
        self.left -= len(run)
        self.acquired.append(Acquired(run.first, run.last, run.delivery_count))

    def _end_of_request(self, first: int) -> int:
        """Returns the last offset to acquire, beginning at `first`: the end of a batch, unless the limit is strict."""
        wanted = first + self.left - 1
        if not self.request.is_record_limit:
            for batch in self.batches:
                if batch.last_offset >= wanted:
                    return batch.last_offset
        return wanted

    def _divided(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits the range into ranges of about `batch_size` records that end where batches end."""
        ranges: list[tuple[int, int]] = []
        if not self.request.is_record_limit and last - first + 1 > self.request.batch_size:
            for batch in self.batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= self.request.batch_size:
                    ranges.append((first, batch.base_offset - 1))
                    first = batch.base_offset
        return [*ranges, (first, last)]
