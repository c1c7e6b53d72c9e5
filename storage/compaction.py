"""Compacting a log (`cleanup.policy=compact`): which one needs it, the copying, and the exchange of segments.

- `OffsetMap`: the newest offset of each key; `Cleaner` and `CleanedTransactions` decide which records of a batch
  stay.
- `look` finds what there is to clean, cheaply. The server takes the dirtiest log that `needs_cleaning`.
- `CleaningJob`: a thread or, because the job is all CPU, another process runs the `job`: it is plain data, and reads
  and writes files only.
- `main` is what that process runs.
- `finish`, in the thread of the log, swaps the result in, unless the log was cut meanwhile.

Nothing at or above the last stable offset, and nothing of the active segment, is touched.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ..protocol.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    seal,
    write_header,
)
from ..protocol.records.control import ControlType, control_type
from ..protocol.records.errors import BatchError
from ..protocol.records.record import Record, encode_batch
from .files.open_files import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    LogDirectoryFailure,
    OpenFile,
    PartitionDirectory,
    base_offset_of,
    unlink_if_exists,
    write_fully,
)
from .log.config import LogConfig
from .log.log import Log
from .segments.batches import batches_of, scan, write_indexes
from .segments.damage import MOST_POISONED, Poisoned, PoisonedBatch, SegmentSuspected, readable_records
from .segments.index import MAX_RELATIVE_OFFSET, AbortedTransaction, append_aborted
from .segments.segment import Segment

# ---- offsets of keys
#
# The newest offset of each key in the part of a log that has not been compacted.


#: Roughly what a key costs here, hash table and numbers included; Kafka's map takes 24 bytes for one.
BYTES_PER_KEY = 160
#: Longer keys are kept as digests of one byte more than this, so that none can be taken for another's digest.
_LONGEST_KEY = 24
_DIGEST_BYTES = 25


class OffsetMap:
    """Bounded: `put` refuses a new key when the memory that `log.cleaner.dedupe.buffer.size` allows is used up."""

    __slots__ = ("_offsets", "capacity", "latest_offset")

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, 1)
        self._offsets: dict[bytes, int] = {}
        #: All records up to here are in the map.
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """False when the key does not fit any more."""
        short = _short(key)
        if len(self._offsets) >= self.capacity and short not in self._offsets:
            return False
        self._offsets[short] = offset
        return True

    def newest(self, key: bytes) -> int:
        """The last offset put for the key, or -1."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) <= _LONGEST_KEY else blake2b(key, digest_size=_DIGEST_BYTES).digest()


# ---- one batch
#
# Compaction of one batch: computes the batch that replaces it, or none. Pure.
#
# - A record stays when no later one has its key. Records of aborted transactions go at once.
# - A tombstone (no value) stays for `delete.retention.ms` from the first cleaning that meets it, so that a reader
#   that starts at the beginning sees the deletion. Its batch holds the time from which it may go: the delete horizon
#   (KIP-534).
# - The marker of a transaction goes like a tombstone, once all records of its transaction are gone.
# - The last batch of each producer stays, without records if need be: it carries the last sequence number and epoch.
# - The last batch of the cleaned range stays likewise, so that the end of the range is not lost.
# - A batch keeps its base and last offset, its sequence numbers, its codec and its leader epoch whatever is taken out
#   of it.


NO_OFFSET = -1


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


# ---- one log

_WRITE_BYTES = 1 << 20


class CleaningAborted(Exception):
    """The one who runs the job asked it to stop."""


class SourceSegment(NamedTuple):
    base_offset: int
    size: int
    next_offset: int
    modified_ns: int
    index_bytes: int
    time_index_bytes: int


@dataclass(slots=True, frozen=True)
class DirtyRange:
    """The part of a log that has not been compacted: [first_dirty_offset, end_offset) may be."""

    first_dirty_offset: int
    end_offset: int
    dirty_bytes: int
    total_bytes: int
    is_overdue: bool
    #: The checkpoint was outside of the log, and is to be replaced by `first_dirty_offset`.
    is_checkpoint_wrong: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    def needs_cleaning(self, config: LogConfig) -> bool:
        """By `min.cleanable.dirty.ratio`, or because `max.compaction.lag.ms` has passed."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def look(log: Log, cleaner_offset: int | None, last_stable_offset: int, now_ms: int) -> DirtyRange:
    """`cleaner_offset`: the offset in the cleaner's checkpoint, None if the checkpoint has none for the log."""
    start = log.log_start_offset
    first_dirty = start if cleaner_offset is None else cleaner_offset
    is_wrong = not start <= first_dirty <= log.log_end_offset
    first_dirty = start if is_wrong else first_dirty
    end = max(first_dirty, _uncleanable_from(log, first_dirty, last_stable_offset, now_ms))
    inactive = _sound(log, log.segments[:-1])
    dirty = [segment for segment in inactive if segment.next_offset > first_dirty and segment.base_offset < end]
    clean_bytes = sum(segment.size for segment in inactive if segment.next_offset <= first_dirty)
    dirty_bytes = sum(segment.size for segment in dirty)
    lag_ms = log.config.max_compaction_lag_ms
    is_overdue = any(0 < segment.first_timestamp() < now_ms - lag_ms for segment in dirty)
    return DirtyRange(first_dirty, end, dirty_bytes, clean_bytes + dirty_bytes, is_overdue, is_wrong)


def _uncleanable_from(log: Log, first_dirty: int, last_stable_offset: int, now_ms: int) -> int:
    """The base of the first segment that is active, unstable, or too young (`min.compaction.lag.ms`)."""
    lag_ms = log.config.min_compaction_lag_ms
    for segment in log.segments[:-1]:
        if segment.next_offset > last_stable_offset:
            return segment.base_offset
        if lag_ms > 0 and segment.next_offset > first_dirty and _newest_ms(segment) > now_ms - lag_ms:
            return segment.base_offset
    return log.active.base_offset


def _newest_ms(segment: Segment) -> int:
    newest = segment.largest_timestamp()
    return newest if newest >= 0 else segment.modified_ms()


class CleaningResult(NamedTuple):
    """`groups`: (base offset of the first, number of segments) of what each cleaned segment replaces."""

    groups: tuple[tuple[int, int], ...]
    #: Up to where the log is clean now; the new checkpoint.
    end_offset: int
    bytes_read: int
    bytes_written: int
    #: Batches that were kept as they are, since their records cannot be read.
    poisoned: tuple[PoisonedBatch, ...] = ()


@dataclass(slots=True, frozen=True)
class CleaningJob:
    """All that a cleaning needs to know; may be pickled."""

    path: str
    config: LogConfig
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    last_of_producers: dict[int, LastOfProducer]
    now_ms: int
    most_keys: int
    generation: int
    #: Damaged segments are left out. They may hold what a tombstone deletes, so tombstones and markers stay.
    is_damaged: bool = False

    def run(self, is_aborted: Callable[[], bool] = lambda: False) -> CleaningResult:
        """Writes the `.cleaned` segments beside the log's own. Raises CleaningAborted, LogDirectoryFailure,
        and BatchError: then the log is not to be cleaned again before it has been recovered.
        """
        directory = PartitionDirectory(self.path)
        groups: list[list[SourceSegment]] = []
        try:
            newest = self._map_newest(directory, is_aborted)
            end = newest.latest_offset + 1
            groups = _grouped([s for s in self.segments if s.base_offset < end], self.config, self.end_offset)
            cleaner = Cleaner(
                newest,
                CleanedTransactions(self.aborted),
                self.last_of_producers,
                0 if self.is_damaged else self.now_ms,
                self.config.delete_retention_ms + (self.now_ms if self.is_damaged else 0),
                self.end_offset,
            )
            read = written = 0
            poisoned: list[PoisonedBatch] = []
            for group in groups:
                written += self._clean_group(directory, group, cleaner, poisoned, is_aborted)
                read += sum(segment.size for segment in group)
        except OSError as error:
            _remove_cleaned(directory, [group[0].base_offset for group in groups])
            raise LogDirectoryFailure(directory.log_directory, f"compacting {self.path}", error) from error
        except (CleaningAborted, BatchError):
            _remove_cleaned(directory, [group[0].base_offset for group in groups])
            raise
        replaced = tuple((group[0].base_offset, len(group)) for group in groups)
        return CleaningResult(replaced, end, read, written, tuple(poisoned))

    def _map_newest(self, directory: PartitionDirectory, is_aborted: Callable[[], bool]) -> OffsetMap:
        """Goes through the dirty part until its keys fill the map."""
        newest = OffsetMap(self.most_keys)
        newest.latest_offset = self.first_dirty_offset - 1
        dirty = [segment for segment in self.segments if segment.next_offset > self.first_dirty_offset]
        # An aborted transaction that ended before the first batch read here would be taken for an open one.
        begin = dirty[0].base_offset if dirty else self.first_dirty_offset
        transactions = CleanedTransactions(entry for entry in self.aborted if entry.last_offset >= begin)
        for segment in dirty:
            if not self._map_segment(directory, segment, newest, transactions, is_aborted):
                break
            newest.latest_offset = max(newest.latest_offset, segment.next_offset - 1)
        return newest

    def _map_segment(
        self,
        directory: PartitionDirectory,
        segment: SourceSegment,
        newest: OffsetMap,
        transactions: CleanedTransactions,
        is_aborted: Callable[[], bool],
    ) -> bool:
        """False when the map is full."""
        first = self.first_dirty_offset
        for header, batch in _good_batches(directory, segment, is_aborted):
            with suppress(Poisoned):  # its keys are not known; `_copy` keeps and notes it
                if header.is_control:
                    transactions.meet_marker(header, marker_type(header, batch))
                elif not transactions.meet_data(header) and header.last_offset >= first:
                    for record in readable_records(header, batch):
                        if record.key is None or record.offset < first:
                            continue
                        if not newest.put(record.key, record.offset):
                            return False
            newest.latest_offset = max(newest.latest_offset, header.last_offset)
        return True

    def _clean_group(
        self,
        directory: PartitionDirectory,
        group: Sequence[SourceSegment],
        cleaner: Cleaner,
        poisoned: list[PoisonedBatch],
        is_aborted: Callable[[], bool],
    ) -> int:
        """Copies what stays of the group's segments into one `.cleaned` segment; its size."""
        base = group[0].base_offset
        path = directory.file(base, LOG_SUFFIX + CLEANED_SUFFIX)
        for kind in SEGMENT_SUFFIXES:
            unlink_if_exists(directory.file(base, kind + CLEANED_SUFFIX))
        size = self._copy(_good_batches_of(directory, group, is_aborted), cleaner, path, poisoned)
        found = scan(path, base, size, self.config.index_interval_bytes, verify=False)
        assert found.size == size, f"{path} is not whole batches in order"
        write_indexes(directory, base, found, CLEANED_SUFFIX)
        for entry in cleaner.transactions.take_retained():
            append_aborted(directory, base, entry, CLEANED_SUFFIX)
        for kind in SEGMENT_SUFFIXES:
            _finish_file(directory.file(base, kind + CLEANED_SUFFIX), group[-1].modified_ns)
        return size

    @staticmethod
    def _copy(
        batches: Iterator[tuple[BatchHeader, memoryview]], cleaner: Cleaner, path: str, poisoned: list[PoisonedBatch]
    ) -> int:
        out = OpenFile(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        waiting, written = bytearray(), 0
        for header, batch in batches:
            try:
                kept = cleaner.clean(header, batch)
            except Poisoned as found:
                kept = batch
                if len(poisoned) < MOST_POISONED:
                    poisoned.append(found.batch)
            if kept is not None:
                waiting += kept
            if len(waiting) >= _WRITE_BYTES:
                write_fully(out.fd, waiting, written)
                written += len(waiting)
                waiting.clear()
        write_fully(out.fd, waiting, written)
        return written + len(waiting)


def _good_batches_of(
    directory: PartitionDirectory, group: Sequence[SourceSegment], is_aborted: Callable[[], bool]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    for segment in group:
        yield from _good_batches(directory, segment, is_aborted)


def _good_batches(
    directory: PartitionDirectory, segment: SourceSegment, is_aborted: Callable[[], bool]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch of the segment. Damage must not be copied: it would get a good CRC, or end the log there."""
    path, end = directory.file(segment.base_offset, LOG_SUFFIX), 0
    for position, header, batch in batches_of(path, segment.size):
        if is_aborted():
            raise CleaningAborted
        yield header, batch
        end = position + header.size
    if end != segment.size:
        raise SegmentSuspected(segment.base_offset, f"{path} has no good batch at {end}")


def _remove_cleaned(directory: PartitionDirectory, base_offsets: Iterable[int]) -> None:
    with suppress(OSError):
        for base_offset in base_offsets:
            for kind in SEGMENT_SUFFIXES:
                unlink_if_exists(directory.file(base_offset, kind + CLEANED_SUFFIX))


def _finish_file(path: str, modified_ns: int) -> None:
    """On the disk before it replaces anything, and as old as what it was made of: retention goes by that."""
    if not os.path.exists(path):
        return
    file = OpenFile(path)
    os.fsync(file.fd)
    os.utime(path, ns=(modified_ns, modified_ns))


def _grouped(segments: Sequence[SourceSegment], config: LogConfig, end_offset: int) -> list[list[SourceSegment]]:
    """Neighbours that fit into one segment together, so that cleaning does not leave ever smaller ones."""
    groups: list[list[SourceSegment]] = []
    for segment in segments:
        is_next = bool(groups) and groups[-1][-1].next_offset == segment.base_offset
        if is_next and _fits(groups[-1], segment, config, end_offset):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: Sequence[SourceSegment], segment: SourceSegment, config: LogConfig, end_offset: int) -> bool:
    last_offset = min(segment.next_offset, end_offset) - 1
    return (
        sum(one.size for one in group) + segment.size <= config.segment_bytes
        and sum(one.index_bytes for one in group) + segment.index_bytes <= config.segment_index_bytes
        and sum(one.time_index_bytes for one in group) + segment.time_index_bytes <= config.segment_index_bytes
        and (segment.size == 0 or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )


def job(log: Log, dirt: DirtyRange, now_ms: int, most_keys: int) -> CleaningJob:
    """The cleaning of what `look` found. `most_keys`: what the offset map may hold (offset_map.BYTES_PER_KEY each)."""
    sources = [one for one in _sound(log, log.segments[:-1]) if one.base_offset < dirt.end_offset]
    left_out = [one for one in log.segments[:-1] if one.base_offset < dirt.end_offset and one not in sources]
    aborted = log.aborted_transactions(sources[0].base_offset, dirt.end_offset)
    last = {
        producer.producer_id: LastOfProducer(producer.last_data_offset, producer.epoch)
        for producer in log.producers.by_id.values()
    }
    return CleaningJob(
        path=log.path,
        config=log.config,
        segments=tuple(map(_source, sources)),
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        # A transaction whose marker is not met would be taken for an open one.
        aborted=tuple(
            one for one in aborted if not any(s.base_offset <= one.last_offset < s.next_offset for s in left_out)
        ),
        last_of_producers=last,
        now_ms=now_ms,
        most_keys=most_keys,
        generation=log.generation,
        is_damaged=bool(log.damage),
    )


def _sound(log: Log, segments: Sequence[Segment]) -> list[Segment]:
    """Returns the segments without damage. A damaged one stays as it is: parts of it can be read, and it may be healed."""
    damaged = {base_offset_of(one.file) for one in log.damage}
    return [segment for segment in segments if segment.base_offset not in damaged]


def _source(segment: Segment) -> SourceSegment:
    return SourceSegment(
        segment.base_offset,
        segment.size,
        segment.next_offset,
        os.stat(segment.path).st_mtime_ns,
        segment.offset_index.size,
        segment.time_index.size,
    )


def finish(log: Log, cleaning: CleaningJob, result: CleaningResult, now_ms: int) -> bool:
    """Swaps the cleaned segments in; False when the log has changed meanwhile, and what was done is thrown away."""
    return all([*finish_in_steps(log, cleaning, result, now_ms)])


def finish_in_steps(
    log: Log, cleaning: CleaningJob, result: CleaningResult, now_ms: int
) -> Generator[bool, None, None]:
    """Does what `finish` does, a segment at a time: each takes a dozen renames. Yields whether the segment was swapped in.
    The log may change between two of them. When the iterator is closed early, the other cleaned segments are removed.
    """
    left = list(result.groups)
    try:
        while left:
            base_offset, count = left[0]
            is_same = log.path == cleaning.path and log.generation == cleaning.generation
            is_swapped = is_same and _swap(log, base_offset, count, now_ms)
            if is_swapped:
                del left[0]
            else:
                _remove_cleaned(PartitionDirectory(log.path), [left.pop(0)[0]])
            yield is_swapped
    finally:
        _remove_cleaned(PartitionDirectory(log.path), [base_offset for base_offset, _ in left])


def _swap(log: Log, base_offset: int, count: int, now_ms: int) -> bool:
    at = next((i for i, segment in enumerate(log.segments) if segment.base_offset == base_offset), None)
    if at is None or at + count >= len(log.segments):
        return False
    return log.replace(base_offset, log.segments[at : at + count], now_ms)


# ---- the process of one compaction

#: Added to the broker's own niceness: the process gives way to others.
NICENESS = 5


def main() -> None:
    """Runs a pickled job of standard input; its pickled result or exception goes to standard output. It ends early when the
    broker, and so its standard input, is gone.
    """
    os.nice(NICENESS)
    job: CleaningJob = pickle.load(sys.stdin.buffer)
    is_orphan = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(is_orphan,), daemon=True).start()
    outcome: CleaningResult | Exception
    try:
        outcome = job.run(is_orphan.is_set)
    except CleaningAborted:
        sys.exit(1)
    except (BatchError, LogDirectoryFailure) as failure:
        outcome = failure
    sys.stdout.buffer.write(pickle.dumps(outcome))


def _await_end_of_input(is_orphan: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    is_orphan.set()
