"""Opening a partition's directory: what files are there, what a crash left undone, and what the log then is.

After a clean shutdown nothing is scanned: the end of each segment is read from its last index entry on. Otherwise
every segment from the one that holds the recovery point is read through. Bytes that are no whole batch are

- a hole where whole batches, or a segment, follow them: damage. Empty segments above the recovery point do not count;
- damage at the end of the log, where the log is known to have ended behind them (`known_end`): the log
  goes on at the end that was known, in a new segment, so that no offset is assigned twice;
- a torn tail else, which is cut.

Of damage all bytes are kept, and the ranges are in `damage` (segments/damage.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.errors import BatchError, OldFormatInLog
from ..files.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX
from ..files.writes import unlink_if_exists
from ..segments.aborted import append_aborted, remove_aborted
from ..segments.batches import recover_segment
from ..segments.damage import Damage, DamagedRange
from ..segments.sealed import sealed_end
from ..segments.segment import Segment
from .ends import UNPROVEN, Claim, known_end
from .epochs import FILE_NAME as EPOCHS_FILE
from .epochs import UNDEFINED_EPOCH, LeaderEpochs, epoch_of
from .inventory import Inventory, take_inventory
from .lost_ranges import lost_ranges
from .producers import Producers
from .replay import aborted_entry, follow_batch, restore_producers, whole_batches

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..files.clean_replicas import CleanReplica
    from ..files.open_files import OpenFiles
    from ..files.partition_directory import PartitionDirectory
    from ..segments.batches import WholeBatches
    from .config import LogConfig


class DamagedLog(Exception):
    """A log that is to be whole is not. Nothing was changed but its indexes. `end`: that of its whole batches."""

    def __init__(self, path: str, ranges: Sequence[DamagedRange], end: int) -> None:
        first = ranges[0]
        super().__init__(
            f"{path}/{first.file}: damaged at position {first.position}, offset {first.first_offset} ({first.reason})"
        )
        self.path = path
        self.ranges = tuple(ranges)
        self.end = end


class LoadedLog(NamedTuple):
    """`notes`: repairs and oddities, a line each, for the broker's log. `is_noted`: opened from its note. `epoch_damage`:
    which batch that was read has an epoch that others contradict, where all offsets must be there.
    """

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: Producers
    snapshots: list[int]
    truncated_bytes: int
    damage: Damage
    notes: tuple[str, ...]
    is_noted: bool = False
    epoch_damage: str = ""


class EpochCheck:
    """Compares the epochs of a log's batches with each other and with the file of epochs: no CRC covers them.

    `damage`: the first contradiction, or "".
    """

    def __init__(self, entries: Sequence[tuple[int, int]]) -> None:
        self._entries = list(entries)
        self._last = UNDEFINED_EPOCH
        self.damage = ""

    def follow(self, header: BatchHeader) -> None:
        epoch, offset = header.leader_epoch, header.base_offset
        known = epoch_of(self._entries, offset) if self._entries and offset <= self._entries[-1][1] else UNDEFINED_EPOCH
        if not self.damage and epoch < self._last:
            self.damage = f"the batch at offset {offset} has the leader epoch {epoch}, and one before it {self._last}"
        elif not self.damage and known not in (UNDEFINED_EPOCH, epoch):
            self.damage = f"the batch at offset {offset} has the leader epoch {epoch}, and {EPOCHS_FILE} {known}"
        self._last = max(self._last, epoch)


class LogLoader:
    """The opening of one directory. `load` is called once."""

    def __init__(
        self,
        directory: PartitionDirectory,
        config: LogConfig,
        files: OpenFiles,
        now_ms: int,
        *,
        must_be_whole_from: int | None = None,
    ) -> None:
        self._must_be_whole_from = must_be_whole_from
        self.directory = directory
        self.config = config
        self.files = files
        self.now_ms = now_ms
        self.segments: list[Segment] = []
        self.snapshots: list[int] = []
        self.epochs = LeaderEpochs(directory)
        self.producers = Producers()
        self.truncated_bytes = 0
        self.damage = Damage(directory)
        self.notes: list[str] = []
        # Where the whole batches of the last segment end, when it was read through.
        self._last_whole: int | None = None
        self._read_from: int | None = None
        self._aborted: frozenset[int] = frozenset()
        self._epoch_check: EpochCheck | None = None

    def load(
        self,
        log_start_offset: int,
        recovery_point: int,
        *,
        clean: bool,
        claims: Sequence[Claim] = (),
        noted: CleanReplica | None = None,
    ) -> LoadedLog:
        """`noted`: the note of a replica whose folder is unchanged, and whose files have to be looked at."""
        has_files = noted is None or noted.has_files or bool(claims)
        inventory = take_inventory(self.directory.path) if has_files else Inventory([], [])
        self.snapshots = inventory.snapshots
        self.notes += inventory.notes
        if inventory.has_damage:
            self.damage = Damage.load(self.directory)
        self.segments = [Segment.existing(self.directory, self.files, base, self.now_ms) for base in inventory.bases]
        if self.segments or inventory.has_epochs:
            self.epochs = LeaderEpochs.load(self.directory, is_missing=not inventory.has_epochs)
        if self._must_be_whole_from is not None:
            self._epoch_check = EpochCheck(self.epochs.entries())
        self._aborted = inventory.aborted
        if self.segments:
            self._find_ends(inventory, recovery_point, claims, clean=clean)
        end = self._settle_end(log_start_offset, [*claims, *self._own_claims()])
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            segment.next_offset = following.base_offset
        log_start_offset = self._find_start(log_start_offset, inventory)
        self.damage.restrict(log_start_offset, end)
        self._check_epochs(end, is_read_through=self._read_from == 0)
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(log_start_offset)
        if self.epochs.file_reaches(end + 1) and not self.epochs.is_doubtful:
            self.epochs.write()  # records that a crash has lost may be followed by others
        if clean:
            recovery_point = end
            self.snapshots = restore_producers(self, end)
        return LoadedLog(
            self.segments, log_start_offset, end, min(recovery_point, end), self.epochs, self.producers, self.snapshots,
            self.truncated_bytes, self.damage, tuple(self.notes),
            epoch_damage=self._epoch_check.damage if self._epoch_check is not None else "",
        )  # fmt: skip

    # ---- the ends of the segments

    def _find_ends(self, inventory: Inventory, recovery_point: int, claims: Sequence[Claim], *, clean: bool) -> None:
        """Reads through what must be, and looks at the ends of the others."""
        first = len(self.segments) - 1
        if not clean:
            first = max((n for n, one in enumerate(self.segments) if one.base_offset <= recovery_point), default=0)
        for segment, following in zip(self.segments[:first], self.segments[1:], strict=False):
            self._look_at_end(segment, following.base_offset, inventory)
            segment.next_offset = following.base_offset
        last = self.segments[-1]
        if not clean:
            self._recover(first)
        elif not self._ends_as_closed(last, inventory) or (claims and _highest(claims) != last.next_offset):
            # A clean shutdown ends with a whole batch, where the checkpoints end: another program changed the directory.
            last.next_offset = last.base_offset
            self._recover(first)

    def _ends_as_closed(self, segment: Segment, inventory: Inventory) -> bool:
        if segment.size and segment.base_offset not in inventory.indexed:
            self.notes.append(f"{segment.path}: an index is missing; rebuilt from the log")
            return False
        try:
            return segment.find_end()
        except OldFormatInLog:
            return False

    def _look_at_end(self, segment: Segment, following: int, inventory: Inventory) -> None:
        name = os.path.basename(segment.path)
        if any(one.position + one.size >= segment.size for one in self.damage.in_file(name)):
            return  # known to be damaged at its end
        end = None
        if segment.base_offset in inventory.indexed:
            end = sealed_end(self.directory, segment.base_offset, segment.size, self.config.index_interval_bytes)
        if end is not None and end.next_offset <= following:
            if end.next_offset < following and end.is_dense and not self.config.compact:
                self._add_damage(segment, segment.size, 0, end.next_offset, following, "the file ends early")
            return
        with suppress(OldFormatInLog):
            limit, interval = following, self.config.index_interval_bytes
            found = recover_segment(self.directory, segment.base_offset, interval, None, limit)
            segment.forget_indexes()
            if not self._add_holes(segment, found, following):
                self.notes.append(f"{segment.path}: an index is invalid; rebuilt from the log")

    def _recover(self, first: int) -> None:
        """Reads the segments through from number `first`."""
        self._read_from = first
        self.snapshots = restore_producers(self, self.segments[first].base_offset)
        last_filled = max((n for n in range(first, len(self.segments)) if self.segments[n].size), default=first)
        for number, segment in enumerate(self.segments[first:], first):
            is_last = segment is self.segments[-1]
            found = self._recover_segment(segment, 1 << 62 if is_last else self.segments[number + 1].base_offset)
            if number >= last_filled and not is_last and found.next_offset < self.segments[number + 1].base_offset:
                self._leave_out(number + 1)
                is_last = True
            if is_last:
                segment.next_offset, self._last_whole = found.next_offset, found.size
                self._add_holes(segment, found, None)
            else:
                segment.next_offset = self.segments[number + 1].base_offset
                self._add_holes(segment, found, segment.next_offset)
            if is_last:
                break
        self.producers.end_offset = self.segments[-1].next_offset

    def _leave_out(self, number: int) -> None:
        """Deletes the empty segments from `number` on, which are above the recovery point and follow a torn tail.

        A power loss leaves their names, when neither their records nor those before them were flushed.
        """
        left_out = self.segments[number:]
        del self.segments[number:]
        for segment in left_out:
            segment.delete()
        self.notes.append(f"{left_out[0].path}: it was empty, behind records that a crash has lost; deleted")

    def _recover_segment(self, segment: Segment, limit_offset: int) -> WholeBatches:
        base = segment.base_offset
        if base in self._aborted:
            remove_aborted(self.directory, base)

        def on_batch(_position: int, header: BatchHeader, batch: memoryview) -> None:
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if self._epoch_check is not None:
                self._epoch_check.follow(header)
            if header.producer_id >= 0:
                with suppress(BatchError):  # a marker without contents ends no transaction
                    ended = follow_batch(self.producers, header, batch)
                    if ended is not None and ended.aborted:
                        append_aborted(self.directory, base, aborted_entry(self.producers, ended))

        interval, is_dense = self.config.index_interval_bytes, self._must_be_whole_from is not None
        found = recover_segment(self.directory, base, interval, on_batch, limit_offset, is_dense=is_dense)
        segment.forget_indexes()
        segment.max_timestamp, segment.offset_of_max_timestamp = found.max_timestamp, found.offset_of_max_timestamp
        return found

    def _add_holes(self, segment: Segment, whole_batches: WholeBatches, following: int | None) -> bool:
        """Returns whether there are any; behind the last batch too, unless `following` is None."""
        lost = lost_ranges(segment, whole_batches, following, is_compacted=self.config.compact)
        for one in lost:
            self.damage.add(one)
        return bool(lost)

    def _add_damage(
        self, segment: Segment, position: int, size: int, first_offset: int, next_offset: int, reason: str
    ) -> None:
        name = os.path.basename(segment.path)
        self.damage.add(DamagedRange(name, position, size, first_offset, next_offset, reason))

    # ---- the ends of the log

    def _own_claims(self) -> list[Claim]:
        """Returns the end of the log by the partition's own files: one claim: one crash may leave all of them behind."""
        entries = self.epochs.entries()
        offset = max(self.snapshots[-1] if self.snapshots else 0, entries[-1][1] if entries else 0)
        return [Claim(offset, UNPROVEN, f"a producer snapshot or {EPOCHS_FILE}")] if offset else []

    def _settle_end(self, log_start_offset: int, claims: Sequence[Claim]) -> int:
        """The end of the log: cuts a torn tail, and keeps a damaged one."""
        last = self.segments[-1] if self.segments else None
        end = last.next_offset if last is not None else 0
        whole = self._last_whole if self._last_whole is not None else (last.size if last is not None else 0)
        has_rest = last is not None and whole < last.size
        claimed = known_end(claims, weight=UNPROVEN if has_rest else 0)
        if self._must_be_whole_from is not None:
            self._check_whole(last, end, whole, claimed)
        if last is None:
            return self._begin(log_start_offset, claimed)
        if claimed is None or claimed.offset <= end:
            if has_rest:
                self._cut(last, whole)
            self._note_lone_claims(claims, end)
            self._drop_snapshots(above=end)
            return end
        reason = "no whole batch" if has_rest else "the file ends early"
        self._add_damage(last, whole, last.size - whole, end, claimed.offset, reason)
        self._go_on_at(claimed.offset)
        return claimed.offset

    def _check_whole(self, last: Segment | None, end: int, whole: int, claimed: Claim | None) -> None:
        """Raises DamagedLog for a log of which nothing from the offset `must_be_whole_from` on may be missing."""
        begin = self._must_be_whole_from or 0
        ranges = [one for one in self.damage if one.next_offset > begin]
        if claimed is not None and claimed.offset > max(end, begin):
            name = os.path.basename(last.path if last is not None else self.directory.file(begin, LOG_SUFFIX))
            size = last.size - whole if last is not None else 0
            reason = f"it ended at offset {claimed.offset} by {claimed.source}"
            ranges.append(DamagedRange(name, whole, size, end, claimed.offset, reason))
        if ranges:
            raise DamagedLog(self.directory.path, ranges, end)

    def _begin(self, log_start_offset: int, claimed: Claim | None) -> int:
        """No segment is there: a new log, or one whose files are gone."""
        end = max(log_start_offset, claimed.offset if claimed is not None else 0)
        if end > log_start_offset:
            name = os.path.basename(self.directory.file(log_start_offset, LOG_SUFFIX))
            self.damage.add(DamagedRange(name, 0, 0, log_start_offset, end, "the file is gone"))
        for snapshot in self.snapshots:
            unlink_if_exists(self.directory.file(snapshot, SNAPSHOT_SUFFIX))
        self.snapshots = []
        if not self.config.remote_storage:
            self.epochs.clear()
        self.producers.clear(end)
        self._go_on_at(end)
        return end

    def _cut(self, segment: Segment, size: int) -> None:
        self.truncated_bytes += segment.size - size
        os.truncate(segment.path, size)
        segment.size = size

    def _go_on_at(self, offset: int) -> None:
        preallocated = self.config.segment_bytes if self.config.preallocate else 0
        # A log without records has no files: its end need not be told by the name of one.
        make = Segment.create if offset else Segment.planned
        self.segments.append(make(self.directory, self.files, offset, self.now_ms, preallocated=preallocated))
        self.producers.end_offset = offset

    def _note_lone_claims(self, claims: Sequence[Claim], end: int) -> None:
        for claim in claims:
            if claim.offset > end:
                self.notes.append(
                    f"{self.directory.path}: {claim.source} has offsets up to {claim.offset}, but the log ends at {end}"
                )

    def _find_start(self, log_start_offset: int, inventory: Inventory) -> int:
        """Returns the start of the log. A missing first segment leaves its index behind."""
        first, end = self.segments[0].base_offset, self.segments[-1].next_offset
        if log_start_offset > end:
            self.notes.append(
                f"{self.directory.path}: its log start offset was {log_start_offset}, but the log ends at {end}"
            )
            log_start_offset = first
        gone = [base for base in inventory.orphans if log_start_offset <= base < first]
        if gone:
            name = os.path.basename(self.directory.file(gone[0], LOG_SUFFIX))
            self.damage.add(DamagedRange(name, 0, 0, gone[0], first, "the file is gone"))
        if self.config.remote_storage:
            return log_start_offset  # a checkpoint that is lost is 0: the leader finds the start in the remote store
        before = self.damage.covers(first - 1)
        if before is not None and before.next_offset == first:
            return max(log_start_offset, before.first_offset)
        return max(log_start_offset, first)

    def _check_epochs(self, end: int, *, is_read_through: bool) -> None:
        """Epochs that a damaged file has lost are learnt again from the batches."""
        if not self.epochs.is_doubtful or end == self.segments[0].base_offset:
            return
        if not is_read_through:
            self.epochs.clear()
            for segment in self.segments:
                with suppress(OldFormatInLog):
                    for header, _ in whole_batches(segment, self.damage, segment.base_offset):
                        self.epochs.assign(header.leader_epoch, header.base_offset)
        else:
            self.epochs.is_doubtful = False
            if self.epochs.is_missing:
                return  # a crash comes before the first flush
        self.notes.append(f"{self.directory.path}/{EPOCHS_FILE}: missing or damaged; rebuilt from the log")

    def _drop_snapshots(self, above: int) -> None:
        for offset in self.snapshots:
            if offset > above:
                unlink_if_exists(self.directory.file(offset, SNAPSHOT_SUFFIX))
        self.snapshots = [offset for offset in self.snapshots if offset <= above]


def _highest(claims: Sequence[Claim]) -> int:
    return max(claim.offset for claim in claims)
