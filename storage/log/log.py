"""A partition's log: segments in a directory, appended at the end, read anywhere, truncated at both ends.

Its batches have their offsets already. The log has no notion of leaders, replicas or clients. One thread calls all
methods, unless a docstring names another; no method reads a clock. Methods raise LogDirectoryFailure for an OSError.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ... import buggify
from ...protocol.records.batch import CONTROL_FLAG, LOG_OVERHEAD, iter_headers
from ..files.clean_replicas import CleanLog, CleanSegment
from ..files.failures import LogDirectoryFailure
from ..files.open_files import OPEN_FILES
from ..files.partition_directory import PartitionDirectory
from ..segments.aborted import append_aborted, plausible_aborted
from ..segments.damage import OffsetDamaged, SegmentSuspected
from ..segments.index import MAX_RELATIVE_OFFSET
from ..segments.slices import LogSlice
from ..segments.timestamps import latest_record, record_at_or_after, segment_with
from .flushing import PendingFlush
from .inventory import has_transient_files
from .loading import LogLoader
from .log_facts import UNNOTED
from .log_segments import LogSegments
from .replay import aborted_entry, follow_batch
from .small_logs import needs_snapshot

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.records.batch import BatchHeader
    from ..files.clean_replicas import CleanReplica
    from ..files.open_files import OpenFiles
    from ..segments.aborted import AbortedTransaction
    from ..segments.batch_walk import Pread
    from ..segments.segment import Segment
    from ..segments.timestamps import TimestampedOffset
    from .config import LogConfig
    from .ends import Claim

#: A flush holds the files of so many segments open. All flushes of a node share its descriptors, and a log that a crash left
#: behind may have thousands of segments to flush.
MOST_FLUSHED_SEGMENTS = 64


class OffsetOutOfRange(Exception):
    """An offset was asked for that is below the log's start or above its end."""


class Log(LogSegments):
    """A log as the rest of the program uses it; its ends and its segments are in `LogSegments`."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        claims: Sequence[Claim] = (),
        must_be_whole_from: int | None = None,
        clean: bool = False,
        noted: CleanReplica | None = None,
        jitter: float = 0.0,
        files: OpenFiles = OPEN_FILES,
    ) -> Log:
        """Opens the directory `path`, making it if it does not exist.

        `recovery_point` and `log_start_offset` are from the log directory's checkpoints (0 when they have none);
        `clean`: the last shutdown was, so nothing is scanned; `noted` is the note of this replica, whose folder is
        unchanged. `jitter`, from 0 to 1, is the share of
        `segment.jitter.ms` by which segments are rolled early. `claims`: where the log is known to have ended (loading.py).
        With `must_be_whole_from` a log that is damaged behind that offset raises DamagedLog before anything is cut.
        `recovered_bytes` is then the number of bytes cut off, `damage` the unreadable ranges, `opening_notes` all oddities.
        """
        directory = PartitionDirectory(os.fspath(path))
        try:
            loaded = LogLoader(directory, config, files, now_ms, must_be_whole_from=must_be_whole_from).load(
                log_start_offset, recovery_point, clean=clean, claims=claims, noted=noted
            )
        except OSError as error:
            raise LogDirectoryFailure(directory.log_directory, f"opening {directory.path}", error) from error
        log = cls(directory, topic, partition, config, loaded, files)
        log._jitter, log.last_flush_ms = jitter, now_ms
        return log

    def to_note(self, quiet_since_ns: int | None = None) -> CleanLog | None:
        """Returns what the next start need not read; None where it has to.

        `quiet_since_ns`: of a log that was not closed; its files must not have changed since.
        """
        end, epochs, last = self.log_end_offset, self.epochs, self.active
        try:
            if quiet_since_ns is not None:
                last.write_pending()
            if self.damage or epochs.is_doubtful or has_transient_files(self.path):
                return None
            stats = [os.stat(segment.path) for segment in self.segments]
        except OSError:
            return None
        if any(found.st_size != segment.size for found, segment in zip(stats, self.segments, strict=True)):
            return None
        segments = [
            CleanSegment(segment.base_offset, found.st_size, found.st_mtime_ns)
            for found, segment in zip(stats, self.segments, strict=True)
        ]
        if quiet_since_ns is not None and segments[-1].modified_ns > quiet_since_ns:
            return None
        entries = [entry for entry in epochs.entries() if entry[1] < end]
        are_written = quiet_since_ns is None or epochs.is_synced(end)
        return CleanLog(
            self.log_start_offset, end, segments, list(self._snapshots), entries, bool(self.producers.by_id),
            last.max_timestamp, last.offset_of_max_timestamp, are_written,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Log({self.path}, offsets {self.log_start_offset}-{self.log_end_offset})"

    # ---- append

    def append(self, buffer: Buffer, headers: Sequence[BatchHeader] | None, now_ms: int) -> None:
        """Writes whole batches, whose offsets are assigned and go on from `log_end_offset` (gaps are a follower's).

        `headers` are those of the batches in `buffer`, with their offsets; None has them read here.
        """
        if headers is None:
            headers = [header for _, header in iter_headers(buffer)]
        first, last = headers[0], headers[-1]
        # In one go: by their names, they would take three times as long.
        base_offset, length, leader_epoch, _, _, attributes, last_delta, _, newest, producer_id, _, _, _ = first
        end, size = base_offset + last_delta + 1, length + LOG_OVERHEAD
        if first is not last:
            end, size = last.next_offset, sum(header.size for header in headers)
            newest = max(header.max_timestamp for header in headers)
        assert self.log_end_offset <= base_offset < end, f"{first} does not continue at {self.log_end_offset}"
        assert size == len(buffer), f"{len(buffer)} bytes, but their headers have {size}"
        ended = self.producers.end_offset
        assert ended <= self.log_end_offset, f"{self!r} has producers up to offset {ended}"
        if end - base_offset > MAX_RELATIVE_OFFSET + 1 and first is not last:
            self._append_each(buffer, headers, now_ms)
            return
        config = self.config
        segment = self.segments[-1]
        try:
            if (
                config is not self._limits_config
                or segment.size + len(buffer) > config.segment_bytes
                or end > self._full_at_offset
                or newest > self._rolls_after
                or segment.entries_left <= 0
                or buggify.active is not None
            ):
                segment = self._segment_for(headers, len(buffer), newest, now_ms)
            segment.append(buffer, headers, config.index_interval_bytes)
            self.log_end_offset = end
            epochs = self.epochs
            if first is last and not attributes & CONTROL_FLAG:
                if leader_epoch > epochs.latest:
                    epochs.assign(leader_epoch, base_offset)
                if producer_id >= 0:
                    self.producers.update(first)
            else:
                for header in headers:
                    if header.leader_epoch > epochs.latest:
                        epochs.assign(header.leader_epoch, header.base_offset)
                    if header.producer_id >= 0:
                        self._follow_producers(segment, buffer, headers)
                        break
            self.producers.end_offset = end
        except OSError as error:
            raise self._append_failed(segment, error) from error

    def _append_each(self, buffer: Buffer, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Appends batches one by one, since no segment has the offsets of all. A follower gets such after a compaction."""
        view, position = memoryview(buffer), 0
        for header in headers:
            self.append(view[position : position + header.size], (header,), now_ms)
            position += header.size

    def write_ahead(self, buffer: Buffer, header: BatchHeader, now_ms: int) -> bool:
        """Writes a part of a large batch that is to be appended. Returns whether `append` is next: see `Segment`.

        Whatever else is appended meanwhile takes the place, and the batch is begun again behind it.
        """
        segment = self.active
        try:
            segment = self._segment_for((header,), len(buffer), header.max_timestamp, now_ms)
            return segment.write_ahead(buffer)
        except OSError as error:
            raise self._append_failed(segment, error) from error

    def drop_ahead(self) -> None:
        """Removes what was written of a batch that is not appended."""
        try:
            self.active.drop_ahead()
        except OSError as error:
            raise self._failed("truncating", error) from error

    def _segment_for(self, headers: Sequence[BatchHeader], size: int, newest: int, now_ms: int) -> Segment:
        """Returns the segment to append to: a new one when the active one is full or old.

        It stores the offset and the timestamp up to which an append may skip this check.
        """
        config, segment, end = self.config, self.active, headers[-1].next_offset
        most_ms = config.segment_ms - int(self._jitter * min(config.segment_jitter_ms, config.segment_ms))
        fits = segment.may_take(size, end - 1, config.segment_bytes, config.segment_index_bytes)
        is_early = buggify.active is not None and segment.size > 0 and buggify.active.acts(buggify.EARLY_ROLL)
        if not fits or is_early or (segment.size and segment.waited_ms(now_ms, newest) > most_ms):
            segment = self._roll_at(headers[0].base_offset, now_ms)
            segment.may_take(size, end - 1, config.segment_bytes, config.segment_index_bytes)
        began = segment.first_timestamp() if segment.size else headers[0].max_timestamp
        self._full_at_offset = segment.base_offset + MAX_RELATIVE_OFFSET + 1
        self._rolls_after = began + most_ms
        # Where records carry no time, the age of the segment counts, which is looked at each time.
        self._limits_config = config if began >= 0 else None
        return segment

    def _follow_producers(self, segment: Segment, buffer: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Brings epochs and producers up to what was just written."""
        position = 0
        for header in headers:
            if header.leader_epoch > self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                batch = memoryview(buffer)[position : position + header.size] if header.is_control else b""
                ended = follow_batch(self.producers, header, batch)
                if ended is not None and ended.aborted:
                    append_aborted(self._directory, segment.base_offset, aborted_entry(self.producers, ended))
                    segment.has_aborted = True
            position += header.size

    def _append_failed(self, segment: Segment, error: OSError) -> LogDirectoryFailure:
        with suppress(OSError):
            os.truncate(segment.path, segment.size)  # the torn batch, if there is one
        return self._failed("appending", error)

    # ---- read

    def read(
        self,
        offset: int,
        max_bytes: int,
        up_to_offset: int | None = None,
        min_one_batch: bool = True,
        pread: Pread = os.pread,
    ) -> LogSlice:
        """The whole batches from the one that contains `offset`, below `up_to_offset`, that take `max_bytes` at most
        (the first may take more, with `min_one_batch`). A slice is within one segment, so it may be shorter than asked for.

        With `pread=pread_nowait` it raises BlockingIOError where finding them would wait for the disk; the same call
        without it may then be made by another thread. Raises OffsetOutOfRange; OffsetDamaged where `offset`, or all that
        follows it, is known to be damaged; SegmentSuspected where there is no batch.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset}, the log has {self.log_start_offset} to {end}")
        if buggify.active is not None and min_one_batch and buggify.active.acts(buggify.SPLIT_READ):
            max_bytes = 1
        limit_offset = end if up_to_offset is None or up_to_offset > end else up_to_offset
        if offset >= limit_offset:
            return LogSlice(None, self.active.size, 0, offset, offset, self.active.base_offset)
        try:
            return self._read(offset, max_bytes, limit_offset, min_one_batch, pread)
        except BlockingIOError:
            raise
        except FileNotFoundError as error:
            raise self._file_gone(offset, error) from error
        except OSError as error:
            raise self._failed("reading", error) from error

    def _file_gone(self, offset: int, error: FileNotFoundError) -> Exception:
        segment = self.segment_of(offset)
        if segment.exists():  # it was removed while a thread was reading here
            return OffsetOutOfRange(f"offset {offset} is missing")
        if os.path.exists(self.path):
            return SegmentSuspected(segment.base_offset, f"{segment.path} is missing")
        return self._failed("reading", error)

    def _read(self, offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool, pread: Pread) -> LogSlice:
        met = self.damage.following(offset) if self.damage.ranges else None
        if met is not None and met.first_offset <= offset:
            raise OffsetDamaged(self.path, met)
        if met is not None and met.first_offset < limit_offset:
            limit_offset = met.first_offset
        else:
            met = None
        number = bisect_right(self._bases, offset) - 1
        if number < 0:
            if self.config.remote_storage:
                raise OffsetOutOfRange(f"offset {offset}, the first segment begins at {self._bases[0]}")
            number = 0
        segment = self.segments[number]
        # Before a place in it is looked up: this may be another thread than that of a truncation.
        segment.is_read = True
        start = segment.position_of(offset, pread)
        while start >= segment.size and number + 1 < len(self.segments):
            # Compaction has left nothing at the end of this segment.
            number += 1
            segment, start = self.segments[number], 0
            segment.is_read = True
        whole = limit_offset >= segment.next_offset
        if met is not None and met.file == os.path.basename(segment.path):
            limit = met.position
        else:
            limit = segment.size if whole else segment.position_of(limit_offset, pread)
        stop, next_offset = segment.end_of_slice(start, max_bytes, limit, pread)
        if stop == start and start < limit and min_one_batch:
            stop, next_offset = segment.first_batch(start, pread)
        if met is not None and start >= limit:  # compaction has left nothing before the damage
            raise OffsetDamaged(self.path, met)
        if next_offset is None:
            return LogSlice(None, start, 0, offset, offset, segment.base_offset)
        segment.remember(next_offset, stop)
        assert start <= stop, f"{segment!r}: bytes {start} to {stop} for offset {offset}"
        found = LogSlice(segment.file(), start, stop - start, offset, next_offset, segment.base_offset)
        if not segment.is_verified and number + 1 < len(self.segments):
            found.is_unverified = True
        return found

    def remember(self, taken: LogSlice) -> None:
        """Notes how much a reader took of what was read: it will ask for the next. `read` does so if it takes all."""
        for segment in reversed(self.segments):
            if segment.base_offset == taken.segment_base_offset:
                segment.remember(taken.next_offset, taken.position + taken.size)
                return

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record whose timestamp is `timestamp` or later; None when there is none. Opens one batch.

        Raises OffsetDamaged where it may be in a damaged range, LargeBatch, and as `read`.
        """
        try:
            found = record_at_or_after(self.segments, timestamp, self.log_start_offset)
            if self.damage:
                self._check_lookup(timestamp, found)
            return found
        except FileNotFoundError as error:
            raise self._file_gone(self.log_start_offset, error) from error
        except OSError as error:
            raise self._failed("reading", error) from error

    def _check_lookup(self, timestamp: int, result: TimestampedOffset | None) -> None:
        """Raises OffsetDamaged for a range between where the time index has the search begin and what it found.

        Where it found nothing, what it looked for may be in the damaged range of the segment that it searched.
        """
        if result is None:
            found_offset, segment = self.log_end_offset, segment_with(self.segments, timestamp) or self.active
        else:
            found_offset, segment = result.offset, self.segment_of(result.offset)
        begun = segment.time_index.floor(timestamp)
        for met in self.damage:
            if met.next_offset > self.log_start_offset and begun <= met.next_offset and met.first_offset < found_offset:
                raise OffsetDamaged(self.path, met)

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp (KIP-734); None in an empty log. Opens one batch.

        Raises LargeBatch.
        """
        try:
            return latest_record(self.segments)
        except FileNotFoundError as error:
            raise self._file_gone(self.log_start_offset, error) from error
        except OSError as error:
            raise self._failed("reading", error) from error

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset), or (-1, -1): see LeaderEpochs.end_offset_for."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it, all transactions are decided: what read_committed may see."""
        assert high_watermark <= self.log_end_offset, f"{self!r} ends below its high watermark {high_watermark}"
        if not self.producers.has_transactions:
            return high_watermark
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, offset: int, up_to_offset: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions with records in the range, for read_committed. `up_to_offset` is exclusive.

        Raises SegmentSuspected where an index cannot be right; verifying the segment builds it again.
        """
        found: list[AbortedTransaction] = []
        for segment in self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]:
            if segment.has_aborted is False:
                continue
            entries = plausible_aborted(self._directory, segment.base_offset, segment.next_offset)
            if entries is None:
                raise SegmentSuspected(
                    segment.base_offset, f"the index of aborted transactions of {segment!r} is damaged"
                )
            segment.has_aborted = bool(entries)
            for entry in entries:
                if entry.last_offset >= offset and entry.first_offset < up_to_offset:
                    found.append(entry)
                if entry.last_stable_offset >= up_to_offset:
                    return found
        return found

    # ---- to the disk, and away

    @property
    def is_unflushed(self) -> bool:
        """Returns whether closing it has to wait for the disk."""
        return self.recovery_point < self.log_end_offset or not self.epochs.is_synced(self.log_end_offset)

    def flush_due(self, now_ms: int) -> int | None:
        """Up to which offset a flush is due: of rolled segments, or by `flush.messages` and `flush.ms`; None if not."""
        end = self.log_end_offset
        unflushed = end - self.recovery_point
        if unflushed <= 0:
            return None
        config = self.config
        if unflushed >= config.flush_messages or now_ms - self.last_flush_ms >= config.flush_ms:
            return end
        base = self._bases[-1]
        return base if base > self.recovery_point else None

    def prepare_flush(self, up_to_offset: int | None = None) -> PendingFlush | None:
        """Returns the next flush of what makes all below `up_to_offset` survive a power cut; None if it is flushed already.

        A thread calls `run` on it; then this thread calls `flushed`. It ends earlier, at its own `up_to_offset`, where
        more than `MOST_FLUSHED_SEGMENTS` are to be flushed.
        """
        target = self.log_end_offset if up_to_offset is None else up_to_offset
        if target <= self.recovery_point:
            return None
        try:
            first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
            segments = [segment for segment in self.segments[first:] if segment.base_offset < target]
            if len(segments) > MOST_FLUSHED_SEGMENTS:
                target = segments[MOST_FLUSHED_SEGMENTS].base_offset
                del segments[MOST_FLUSHED_SEGMENTS:]
            active = self.active
            files = [(segment.file(), None if segment is active else segment.index_paths()) for segment in segments]
            epochs = self.epochs.take_unsynced(self.log_end_offset)
            return PendingFlush(self._directory, target, files, epochs, self.generation)
        except OSError as error:
            raise self._failed("flushing", error) from error

    def flushed(self, flush: PendingFlush, now_ms: int) -> None:
        # Records that were cut off meanwhile do not vouch for those that took their place.
        if flush.generation == self.generation:
            self.recovery_point = max(self.recovery_point, min(flush.up_to_offset, self.log_end_offset))
            self.last_flush_ms = now_ms
        self.noted_end = UNNOTED  # the file of the epochs may be new

    def flush(self, now_ms: int, up_to_offset: int | None = None) -> None:
        """All of it at once; waits for the disk."""
        target = self.log_end_offset if up_to_offset is None else min(up_to_offset, self.log_end_offset)
        while (pending := self.prepare_flush(target)) is not None:
            pending.run()
            self.flushed(pending, now_ms)

    def close(self, now_ms: int, *, clean: bool = True, sync: bool = True) -> None:
        """`clean`: flushed, indexes complete and a producer snapshot taken, so that the next opening scans nothing.

        Without `sync` the caller syncs the whole file system when the last log is closed (`LogDirectory.close_logs`).
        """
        self._free_names()
        try:
            if clean:
                self.active.become_inactive()
                if needs_snapshot(self._snapshots, bool(self.producers.by_id), self.size):
                    self._take_snapshot()
                if sync:
                    self.flush(now_ms)
                self.epochs.write(self.log_end_offset, sync=sync)
                self.recovery_point = self.log_end_offset
            for segment in self.segments:
                segment.close()
        except OSError as error:
            raise self._failed("closing", error) from error
