"""The compaction of one log.

- `CleaningJob`: a thread or, because the job is all CPU, another process runs the `job`: it is plain data, and reads
  and writes files only.
- `finish`, in the thread of the log, swaps the result in, unless the log was cut meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.errors import BatchError
from ..files.failures import LogDirectoryFailure
from ..files.open_files import OpenFile
from ..files.partition_directory import PartitionDirectory
from ..files.segment_files import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES
from ..files.writes import unlink_if_exists, write_fully
from ..segments.aborted import append_aborted
from ..segments.batches import batches_of, scan, write_indexes
from ..segments.damage import SegmentSuspected
from ..segments.index import MAX_RELATIVE_OFFSET
from ..segments.poison import MOST_POISONED, Poisoned, readable_records
from .cleaning import CleanedTransactions, Cleaner, LastOfProducer, marker_type
from .dirty_range import sound
from .offset_map import OffsetMap

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..log.config import LogConfig
    from ..log.log import Log
    from ..segments.aborted import AbortedTransaction
    from ..segments.poison import PoisonedBatch
    from ..segments.segment import Segment
    from .dirty_range import DirtyRange

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
    sources = [one for one in sound(log, log.segments[:-1]) if one.base_offset < dirt.end_offset]
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
