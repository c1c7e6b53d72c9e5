"""The segments of a log, and what must change with them: its ends, epochs, producers' snapshots.

`Log` (log.py) adds appending, reading and flushing. Removed segments are renamed to `.deleted` and unlinked later
(`file.delete.delay.ms`, see `Removals`), as Kafka does: readers of them may finish.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import lt
from typing import TYPE_CHECKING

from ...protocol.records.errors import CorruptBatch
from ..files.segment_files import CLEANED_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX
from ..files.writes import read_if_exists, unlink_if_exists, write_atomically
from ..segments.aborted import plausible_aborted, read_aborted, replace_aborted, truncate_aborted
from ..segments.batches import recover_segment
from ..segments.segment import Segment
from ..segments.snapshots import decode_snapshot, encode_snapshot
from .claims import FileClaims, outdate_notes
from .cut_copy import CutCopy
from .loading import LogLoader
from .log_facts import UNNOTED, LogFacts
from .lost_ranges import lost_ranges
from .removals import Removals
from .replay import restore_producers

if TYPE_CHECKING:
    from ...protocol.internal.producer_snapshot import ProducerEntry
    from ..files.open_files import OpenFiles
    from ..files.partition_directory import PartitionDirectory
    from ..segments.aborted import AbortedTransaction
    from ..segments.damage import DamagedRange
    from ..segments.segment import SegmentCut
    from .config import LogConfig
    from .loading import LoadedLog


class LogSegments(LogFacts):
    """The segments of an opened log."""

    __slots__ = (
        "_bases", "_full_at_offset", "_limits_config", "_removals", "_rolls_after", "_snapshots", "epoch_damage", "epochs",
        "generation", "producers", "segments",
    )  # fmt: skip

    def __init__(
        self,
        directory: PartitionDirectory,
        topic: str,
        partition: int,
        config: LogConfig,
        loaded: LoadedLog,
        files: OpenFiles,
    ) -> None:
        """See `Log.open`."""
        self._directory = directory
        self._files = files
        self._jitter = 0.0
        # The result of the last check, which appends reuse: while the configuration is this one, the active segment takes
        # batches up to this offset and this timestamp.
        self._limits_config: LogConfig | None = None
        self._full_at_offset = 0
        self._rolls_after = 0
        self.topic = topic
        self.partition = partition
        self.config = config
        self.segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._snapshots = loaded.snapshots
        self._removals = Removals(directory)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.recovered_bytes = loaded.truncated_bytes
        self.opening_notes = loaded.notes
        self.epoch_damage = loaded.epoch_damage
        self.epochs = loaded.epochs
        self.damage = loaded.damage
        if self.damage:
            self._mark_holes()
        self.producers = loaded.producers
        self.last_flush_ms = 0
        self.noted_end = loaded.log_end_offset if loaded.is_noted else UNNOTED
        #: Changes whenever records go from the end: what was read of the log before may not be of it any more.
        self.generation = 0
        self._check_opened()

    def _check_opened(self) -> None:
        """Checks the result of an opening: segments in order, and all ends within them."""
        bases, start, end = self._bases, self.log_start_offset, self.log_end_offset
        assert all(map(lt, bases, bases[1:])), f"{self.path}: segments are not in order: {bases}"
        assert bases[-1] <= end, f"{self.path}: ends at offset {end}, but its last segment begins at {bases[-1]}"
        assert start <= end, f"{self.path}: starts at offset {start} and ends at {end}"
        assert self.recovery_point <= end, f"{self.path}: recovery point {self.recovery_point} behind the end {end}"
        ended = self.producers.end_offset
        assert ended <= end, f"{self.path}: producers up to offset {ended}, but the log ends at {end}"

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def local_log_start_offset(self) -> int:
        """The first offset on the disk: the log start offset, unless the records before it are in a remote store."""
        return max(self.log_start_offset, self._bases[0])

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment on the disk."""
        return self._bases[0]

    @property
    def has_files(self) -> bool:
        """Returns whether its files are made."""
        return not self.segments[0].is_planned

    @property
    def size(self) -> int:
        """Bytes of all segments' log files."""
        return sum(segment.size for segment in self.segments)

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    def move_to(self, path: str) -> None:
        """Renames the partition's directory."""
        self._free_names()
        try:
            self._directory.rename(path)
        except OSError as error:
            raise self._failed("moving", error) from error

    # ---- damage

    def add_damage(self, ranges: Sequence[DamagedRange]) -> list[DamagedRange]:
        """Takes note of damaged ranges; those that were not known. `damage.save` makes them survive a restart."""
        new = [one for one in ranges if self.damage.add(one)]
        if new:
            self._mark_holes()
        return new

    def healed(self, first_offset: int, next_offset: int) -> list[DamagedRange]:
        """The log has sound batches for these offsets again; the ranges that were damaged."""
        gone = self.damage.healed(first_offset, next_offset)
        if gone:
            self._mark_holes()
        return gone

    def _restrict_damage(self) -> None:
        """After the log was cut at either end."""
        if self.damage:
            self.damage.restrict(self.log_start_offset, self.log_end_offset)
            self._mark_holes()

    def _mark_holes(self) -> None:
        """A walk over a segment passes over these."""
        holes: dict[str, list[tuple[int, int]]] = {}
        for one in self.damage:
            if one.size:
                holes.setdefault(one.file, []).append((one.position, one.position + one.size))
        for segment in self.segments:
            segment.holes = holes.get(os.path.basename(segment.path))

    def correct_aborted(
        self, segment: Segment, entries: Sequence[AbortedTransaction], next_offset: int, *, is_wrong: bool
    ) -> bool:
        """Writes a segment's index of aborted transactions anew, if it is wrong or cannot be right; whether it was.

        `entries` are those of markers below `next_offset`. Others may have been appended since.
        """
        base_offset = segment.base_offset
        try:
            if not is_wrong and plausible_aborted(self._directory, base_offset, segment.next_offset) is not None:
                return False
            present = read_aborted(self._directory, base_offset)
            newer = [one for one in present if next_offset <= one.last_offset < segment.next_offset]
            replace_aborted(self._directory, base_offset, [*entries, *newer])
            segment.has_aborted = None
        except OSError as error:
            raise self._failed("writing an index of", error) from error
        return True

    # ---- growing

    def begin_role(self, leader_epoch: int, *, takes_over: bool) -> None:
        """Begins another role of the replica. `leader_epoch`: that of a leader, which begins at the log's end; -1 for a
        follower. `takes_over`: there was a former leader, to which producers may have a batch in flight.
        """
        self.epochs.assign(leader_epoch, self.log_end_offset)
        self.producers.takeover_offset = self.log_end_offset if takes_over else None

    def drop_epochs_above(self, epoch: int) -> bool:
        """Forgets epochs that no leader has had: no CRC covers the epoch of a batch, so damage of it makes up one.
        Returns whether there were any.
        """
        return self.epochs.drop_above(epoch)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that have written nothing for so long."""
        self.producers.expire(now_ms, expiration_ms)

    def roll(self, now_ms: int) -> Segment:
        """Begins a new segment at the log's end, unless the active one is empty."""
        try:
            return self._roll_at(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._failed("rolling", error) from error

    def _roll_at(self, base_offset: int, now_ms: int) -> Segment:
        active = self.active
        if active.base_offset == base_offset:
            return active
        active.become_inactive()
        self.producers.end_offset = base_offset
        self._take_snapshot()
        preallocated = self.config.segment_bytes if self.config.preallocate else 0
        segment = Segment.create(self._directory, self._files, base_offset, now_ms, preallocated=preallocated)
        active.next_offset = base_offset
        self._add(segment)
        return segment

    def _add(self, segment: Segment) -> None:
        base_offset = segment.base_offset
        assert not self._bases or base_offset > self._bases[-1], f"{self.path}: segment {base_offset} is not the last"
        self._limits_config = None
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    def _take_snapshot(self) -> None:
        """Writes the producers' state at the log's end, if no snapshot has it already."""
        offset = self.producers.end_offset
        if offset <= max(self._snapshots, default=self.segments[0].base_offset):
            return
        content = encode_snapshot(self.producers.to_snapshot())
        write_atomically(self._directory.file(offset, SNAPSHOT_SUFFIX), content, sync=False)
        self._snapshots.append(offset)

    def segments_before(self, base_offset: int, most: int) -> list[Segment]:
        """The last `most` segments before the one of `base_offset`, in order."""
        at = max(bisect_right(self._bases, base_offset) - 1, 0)
        return self.segments[max(at - most, 0) : at]

    def segment_of(self, offset: int) -> Segment:
        return self.segments[max(bisect_right(self._bases, offset) - 1, 0)]

    # ---- both ends

    def prepare_truncation(self, offset: int) -> FileClaims | None:
        """Returns the claims of the log's files above `offset`, which are lowered before the log is cut there; None where
        there are none. The caller lowers them, also where the log is not cut after all.
        """
        end_offset = min(offset, self.log_end_offset)
        has_epochs, has_damage = self.epochs.file_reaches(end_offset), self.damage.file_reaches(end_offset)
        snapshots = [one for one in self._snapshots if one > end_offset]
        if not (has_epochs or has_damage or snapshots):
            return None
        self._snapshots = [one for one in self._snapshots if one <= end_offset]
        return FileClaims(
            self._directory,
            end_offset,
            [self._directory.file(one, SNAPSHOT_SUFFIX) for one in snapshots],
            self.epochs.take_below(end_offset) if has_epochs else None,
            self.damage if has_damage else None,
        )

    def _lower_claims(self, offset: int) -> None:
        """Lowers what the files of the log claim above `offset`: nothing any more where a thread has done so."""
        claims = self.prepare_truncation(offset)
        if claims is not None:
            claims.lower()

    def copy_for_cut(self, offset: int) -> CutCopy | None:
        """Returns the copy, still to be written, for a truncation to `offset`; None where no reader has what it cuts.

        Raises SegmentSuspected, OldMessageFormat, OSError.
        """
        if not self.first_base_offset <= offset < self.log_end_offset:
            return None
        segment = self.segment_of(offset)
        if not segment.is_read:
            return None
        position = segment.cut_at(offset).position
        return CutCopy(segment, position) if position else None

    def truncate_to(self, offset: int, now_ms: int, copy: CutCopy | None = None) -> None:
        """Removes the record at `offset` and all after it; a batch that contains it goes whole. The log ends with the last
        batch that stays, where a start finds its end too: offsets before `offset` may be gone by compaction, or damaged.
        `copy`: of what stays of the segment that is cut.

        The caller has lowered the claims of the log directory's checkpoints (storage/claims.py). The segment that is cut
        is read before anything is removed: damage in it does not end a truncation half way. Raises LogDirectoryFailure,
        and OldMessageFormat with an unchanged log.
        """
        if offset >= self.log_end_offset:
            # An epoch in which this log led, and wrote nothing, is not in the next leader's log.
            self._lower_claims(self.log_end_offset)
            self.epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self.segments[0].base_offset:
            start = min(self.log_start_offset, offset) if self.config.remote_storage else None
            self.truncate_fully_and_start_at(offset, now_ms, start)
            return
        self._free_names()
        try:
            cut = self._cut_within(self.segment_of(offset), offset)
        except OSError as error:
            raise self._failed("truncating", error) from error
        self._lower_claims(cut.next_offset)
        try:
            outdate_notes(self.path)
            while self.active.base_offset > offset:
                self._remove_last().delete()
            self._limits_config = None
            self.generation += 1
            is_copied = copy is not None and copy.segment is self.active and copy.position == cut.position
            self.active.truncate(cut, copy.path if copy is not None and is_copied else "")
            truncate_aborted(self._directory, self.active.base_offset, offset)
            self._ends_at(cut.next_offset)
            self.epochs.write(sync=False)
            self._restore_producers(now_ms)
            self._restrict_damage()
        except OSError as error:
            raise self._failed("truncating", error) from error

    def end_before(self, offset: int) -> int:
        """Returns the log's end after a truncation to `offset`: above it, nothing may be claimed before. Raises as
        `truncate_to`.
        """
        if offset >= self.log_end_offset:
            return offset
        if offset < self.segments[0].base_offset:
            return 0
        try:
            return self._cut_within(self.segment_of(offset), offset).next_offset
        except OSError as error:
            raise self._failed("truncating", error) from error

    def _cut_within(self, segment: Segment, offset: int) -> SegmentCut:
        """Returns where the segment is cut. If it is damaged there, reads it through: the ranges are known then."""
        try:
            return segment.cut_at(offset)
        except CorruptBatch:
            base, interval, end = segment.base_offset, self.config.index_interval_bytes, segment.next_offset
            found = recover_segment(self._directory, base, interval, None, end)
            segment.forget_indexes()
            self.add_damage(lost_ranges(segment, found, end, is_compacted=self.config.compact))
            return segment.cut_at(offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
        """Removes everything; the next record has `offset`. With a log start offset before it, the records between the
        two are in a remote store, and their leader epochs are kept.
        """
        self._free_names()
        self._lower_claims(min(offset, self.segments[0].base_offset))
        try:
            outdate_notes(self.path)
            while self.segments:
                self._remove_last().delete()
            self._add(Segment.create(self._directory, self._files, offset, now_ms))
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            if self.log_start_offset < offset and self.config.remote_storage:
                self.epochs.truncate_from_end(offset)
            else:
                self.epochs.clear()
            self.epochs.write(sync=False)
            self._drop_snapshots(lambda _: True)
            self.producers.clear(offset)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self._restrict_damage()
        except OSError as error:
            raise self._failed("truncating", error) from error

    def begin_after_remote(
        self,
        offset: int,
        now_ms: int,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        producers: list[ProducerEntry],
    ) -> None:
        """Empties the log of a follower; its next record has `offset`, and a remote store has those before it, with
        these leader epochs. `producers` are those at `offset` (KIP-405).
        """
        assert self.config.remote_storage, f"{self.path} has no remote part"
        self.truncate_fully_and_start_at(offset, now_ms, min(log_start_offset, offset))
        try:
            self.epochs.clear()
            for epoch, start in epochs:
                self.epochs.assign(epoch, start)
            self.epochs.truncate_from_end(offset)
            self.epochs.truncate_from_start(self.log_start_offset)
            self.epochs.write()
            self.producers.load(producers, offset, now_ms, self.config.producer_id_expiration_ms)
            self.producers.end_offset = offset
            # No segment before it has written the snapshot of its end.
            write_atomically(
                self._directory.file(offset, SNAPSHOT_SUFFIX), encode_snapshot(self.producers.to_snapshot())
            )
            self._snapshots.append(offset)
        except OSError as error:
            raise self._failed("truncating", error) from error

    def producers_at_local_start(self) -> list[ProducerEntry]:
        """Returns the producers at the start of the first segment, from the snapshot that is kept there; none without one.
        Raises CorruptSnapshot, LogDirectoryFailure.
        """
        try:
            content = read_if_exists(self._directory.file(self._bases[0], SNAPSHOT_SUFFIX))
        except OSError as error:
            raise self._failed("reading", error) from error
        return decode_snapshot(content) if content else []

    def restore_epochs(self, entries: Iterable[tuple[int, int]]) -> None:
        """Replaces the leader epochs by those of the whole log, the remote part included: the file was lost or damaged."""
        self.epochs.clear()
        for epoch, start in entries:
            self.epochs.assign(epoch, start)
        self.epochs.truncate_from_start(self.log_start_offset)
        try:
            self.epochs.write()
        except OSError as error:
            raise self._failed("writing the leader epochs of", error) from error

    def _remove_last(self) -> Segment:
        self._limits_config = None
        self.generation += 1
        self._bases.pop()
        return self.segments.pop()

    def _ends_at(self, offset: int) -> None:
        base = self._bases[-1]
        assert base <= offset <= self.log_end_offset, f"{self.path}: cannot end at {offset}, its last segment is {base}"
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.epochs.truncate_from_end(offset)
        self._drop_snapshots(lambda snapshot: snapshot > offset)

    def _drop_snapshots(self, condition: Callable[[int], bool]) -> None:
        for offset in filter(condition, self._snapshots):
            unlink_if_exists(self._directory.file(offset, SNAPSHOT_SUFFIX))
        self._snapshots = [offset for offset in self._snapshots if not condition(offset)]

    def _restore_producers(self, now_ms: int) -> None:
        loader = LogLoader(self._directory, self.config, self._files, now_ms)
        loader.segments, loader.snapshots, loader.producers = self.segments, self._snapshots, self.producers
        loader.damage = self.damage
        self._snapshots = restore_producers(loader, self.log_end_offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Hides the records below `offset` (DeleteRecords); the next retention pass removes their segments.

        Whether anything changed. The caller has checked that `offset` is not above the high watermark.
        """
        assert offset <= self.log_end_offset, f"log start {offset} after the end {self.log_end_offset}"
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.epochs.truncate_from_start(offset)
        self._restrict_damage()
        return True

    # ---- removing and replacing segments

    def remove_first(self, count: int, now_ms: int, *, defer: bool = False) -> None:
        """Removes the oldest `count` segments (never the active one); the log then starts no earlier than the next. If the
        log has a remote part, only its local part does: the caller removes what the remote store has.

        With `defer` the files keep their names until `delete_scheduled`, which a thread may call.
        """
        assert 0 <= count < len(self.segments), f"{count} of {len(self.segments)} segments"
        following = self._bases[count]
        assert following <= self.log_end_offset, (
            f"{self.path}: segment {following} behind the end {self.log_end_offset}"
        )
        self._schedule_deletion(self.segments[:count], now_ms)
        del self.segments[:count], self._bases[:count]
        if not defer:
            self._free_names()
        if not self.config.remote_storage:
            self.advance_log_start_offset(self._bases[0])

    def replace(self, base_offset: int, sources: Sequence[Segment], now_ms: int) -> bool:
        """Puts the compacted segment at `base_offset` in the place of those it was made of; False when they are no
        longer the log's.

        The files change names in an order from which a crash at any point is put right: `.cleaned` is dropped, `.swap`
        takes the place of what it overlaps (loading.py). A journal keeps the order of renames, so none is waited for.
        """
        at = bisect_right(self._bases, base_offset) - 1
        if (
            at < 0
            or list(self.segments[at : at + len(sources)]) != list(sources)
            or sources[0].base_offset != base_offset
        ):
            return False
        self._free_names()
        try:
            cleaned = Segment.existing(self._directory, self._files, base_offset, now_ms, CLEANED_SUFFIX)
            cleaned.change_suffix(SWAP_SUFFIX)
            self._schedule_deletion(sources, now_ms, keep_snapshot=base_offset)
            self._removals.free_names()
            cleaned.change_suffix("")
        except OSError as error:
            raise self._failed("swapping segments", error) from error
        cleaned.next_offset = sources[-1].next_offset
        self.healed(base_offset, cleaned.next_offset)
        self.segments[at : at + len(sources)] = [cleaned]
        self._bases[at : at + len(sources)] = [base_offset]
        return True

    def insert(self, base_offset: int, next_offset: int, now_ms: int) -> bool:
        """Puts a `.cleaned` segment where no segment is, below the active one; False when there is one by now.

        The data file changes its name first: indexes that a crash leaves out are built again.
        """
        at = bisect_right(self._bases, base_offset)
        if at >= len(self._bases) or self._bases[at] < next_offset or (at and self._bases[at - 1] == base_offset):
            return False
        self._free_names()
        try:
            made = Segment.existing(self._directory, self._files, base_offset, now_ms, CLEANED_SUFFIX)
            made.change_suffix("")
        except OSError as error:
            raise self._failed("inserting a segment", error) from error
        made.next_offset = self._bases[at]
        if at:
            self.segments[at - 1].next_offset = base_offset
        self.segments.insert(at, made)
        self._bases.insert(at, base_offset)
        self.healed(base_offset, next_offset)
        return True

    def _schedule_deletion(self, segments: Sequence[Segment], now_ms: int, keep_snapshot: int = -1) -> None:
        for segment in segments:
            segment.close()
        gone = {segment.base_offset for segment in segments} - {keep_snapshot}
        snapshots = [self._directory.file(offset, SNAPSHOT_SUFFIX) for offset in self._snapshots if offset in gone]
        self._snapshots = [offset for offset in self._snapshots if offset not in gone]
        self._removals.add(now_ms + self.config.file_delete_delay_ms, segments, snapshots)

    def _free_names(self) -> None:
        """Renames removed segments that still have their names: another file may get one. The log is about to change."""
        self.noted_end = UNNOTED
        if not self._removals.keeps_names:
            return
        try:
            self._removals.free_names()
        except OSError as error:
            raise self._failed("removing segments", error) from error

    @property
    def has_removed_segments(self) -> bool:
        """Returns whether files of removed segments are still there."""
        return len(self._removals) > 0

    def delete_scheduled(self, now_ms: int) -> int:
        """Renames removed segments, and unlinks those whose time has come; how many still wait. Any thread may call it."""
        self.noted_end = UNNOTED
        try:
            return self._removals.delete(now_ms)
        except OSError as error:
            raise self._failed("deleting segments", error) from error
