"""Opening a partition's directory: what files are there, what a crash left undone, and what the log then is.

After a clean shutdown nothing is scanned: the end of the log is read from the last index entry on. Otherwise every
segment from the one that holds the recovery point is read through and cut behind its last whole batch (recovery.py).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from ..protocol.records.batch import BatchHeader
from ..protocol.records.control import ControlType, decode_control
from ..protocol.records.errors import OldFormatInLog
from ..protocol.records.record import decode_batch
from .aborted import AbortedTransaction, append_aborted, remove_aborted
from .config import LogConfig
from .damage import FILE_NAME as DAMAGE_FILE
from .damage import Damage
from .epochs import LeaderEpochs
from .files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    OpenFiles,
    Place,
    base_offset_of,
    read_if_exists,
    unlink_if_exists,
)
from .producers import EndedTransaction, Producers
from .recovery import batches_of, recover_segment
from .segment import Segment
from .snapshots import CorruptSnapshot, decode_snapshot

_TEMPORARY_SUFFIX = ".tmp"


class LoadedLog(NamedTuple):
    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: Producers
    snapshots: list[int]
    truncated_bytes: int
    damage: Damage


class LogLoader:
    """One opening of one directory. `load` once, then it is done."""

    def __init__(self, place: Place, config: LogConfig, files: OpenFiles, now_ms: int) -> None:
        self.place = place
        self.config = config
        self.files = files
        self.now_ms = now_ms
        self.segments: list[Segment] = []
        self.snapshots: list[int] = []
        self.epochs = LeaderEpochs(place)
        self.producers = Producers()
        self.truncated_bytes = 0
        self.damage = Damage(place)

    def load(self, log_start_offset: int, recovery_point: int, *, clean: bool) -> LoadedLog:
        bases, self.snapshots, has_damage = take_inventory(self.place.path)
        if has_damage:
            self.damage = Damage.load(self.place)
        self.segments = [Segment.existing(self.place, self.files, base, self.now_ms) for base in bases]
        if self.segments:
            self.epochs = LeaderEpochs.load(self.place)
        if self.segments and not clean:
            self._recover(recovery_point)
        elif self.segments and not self.segments[-1].find_end():
            # A clean shutdown ends with a whole batch: somebody else has been here.
            self._recover(self.segments[-1].base_offset)
        end = self.segments[-1].next_offset if self.segments else 0
        if not self.segments or end < log_start_offset:
            end = self._start_anew(log_start_offset)
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            segment.next_offset = following.base_offset
        log_start_offset = max(log_start_offset, self.segments[0].base_offset)
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(log_start_offset)
        if clean:
            recovery_point = end
            self.snapshots = restore_producers(self, end)
        return LoadedLog(
            self.segments, log_start_offset, end, min(recovery_point, end), self.epochs, self.producers, self.snapshots,
            self.truncated_bytes, self.damage,
        )  # fmt: skip

    def _start_anew(self, offset: int) -> int:
        """No segment holds anything of the log that is said to start at `offset`."""
        for segment in self.segments:
            segment.delete()
        for snapshot in self.snapshots:
            unlink_if_exists(self.place.file(snapshot, SNAPSHOT_SUFFIX))
        self.snapshots = []
        self.epochs.clear()
        self.producers.clear(offset)
        preallocated = self.config.segment_bytes if self.config.preallocate else 0
        self.segments = [Segment.create(self.place, self.files, offset, self.now_ms, preallocated=preallocated)]
        return offset

    def _recover(self, recovery_point: int) -> None:
        """Reads the segments through from the one with the recovery point, and makes all behind a torn batch vanish."""
        first = 0
        for number, segment in enumerate(self.segments):
            if segment.base_offset <= recovery_point:
                first = number
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            segment.next_offset = following.base_offset
        self.snapshots = restore_producers(self, self.segments[first].base_offset)
        end = self.segments[first].base_offset
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            self._recover_segment(segment)
            end = segment.next_offset
            if self.truncated_bytes:
                for lost in self.segments[number + 1 :]:
                    self.truncated_bytes += lost.size
                    lost.delete()
                del self.segments[number + 1 :]
                break
        self._drop_snapshots(above=end)
        self.producers.end_offset = end

    def _recover_segment(self, segment: Segment) -> None:
        base = segment.base_offset
        remove_aborted(self.place, base)

        def on_batch(header: BatchHeader, batch: memoryview) -> None:
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                ended = follow_batch(self.producers, header, batch)
                if ended is not None and ended.aborted:
                    append_aborted(self.place, base, aborted_entry(self.producers, ended))

        interval = self.config.index_interval_bytes
        found, cut = recover_segment(self.place, base, interval, on_batch)
        segment.forget_indexes()
        segment.size, segment.next_offset = found.size, found.next_offset
        segment.max_timestamp, segment.offset_of_max_timestamp = found.max_timestamp, found.offset_of_max_timestamp
        self.truncated_bytes += cut

    def _drop_snapshots(self, above: int) -> None:
        for offset in self.snapshots:
            if offset > above:
                unlink_if_exists(self.place.file(offset, SNAPSHOT_SUFFIX))
        self.snapshots = [offset for offset in self.snapshots if offset <= above]


def follow_batch(producers: Producers, header: BatchHeader, batch: memoryview | bytes) -> EndedTransaction | None:
    """Brings the producers' state past a batch that has a producer id; `batch` is opened only if it is a marker."""
    if not header.is_control:
        producers.update(header)
        return None
    records = decode_batch(batch, 0)
    marker = decode_control(records[0].key, records[0].value) if records else None
    if marker is None or marker.type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    coordinator_epoch: int = marker.message.coordinator_epoch  # type: ignore[attr-defined]
    aborted = marker.type is ControlType.ABORT
    return producers.end_transaction(header, records[0].timestamp, coordinator_epoch, aborted=aborted)


def aborted_entry(producers: Producers, ended: EndedTransaction) -> AbortedTransaction:
    stable = producers.stable_after(ended)
    return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)


def restore_producers(loader: LogLoader, end: int) -> list[int]:
    """Brings the producers' state to `end`: the newest good snapshot not behind it, and the batches from there.

    The offsets of the snapshots that are left.
    """
    place, snapshots = loader.place, list(loader.snapshots)
    expiration_ms = loader.config.producer_id_expiration_ms
    start = loader.segments[0].base_offset if loader.segments else end
    loader.producers.clear(start)
    for offset in sorted((o for o in snapshots if o <= end), reverse=True):
        try:
            entries = decode_snapshot(read_if_exists(place.file(offset, SNAPSHOT_SUFFIX)) or b"")
        except CorruptSnapshot:
            unlink_if_exists(place.file(offset, SNAPSHOT_SUFFIX))
            snapshots.remove(offset)
            continue
        loader.producers.load(entries, offset, loader.now_ms, expiration_ms)
        start = offset
        break
    _follow_from(loader, start, end)
    loader.producers.end_offset = end
    return snapshots


def _follow_from(loader: LogLoader, start: int, end: int) -> None:
    for segment in loader.segments:
        if segment.next_offset <= start or segment.base_offset >= end:
            continue
        # There were no producer ids before format 2.
        with suppress(OldFormatInLog):
            position = segment.position_of(start)
            for _, header, batch in batches_of(segment.path, segment.size, position, verify=False):
                if header.base_offset >= end:
                    return
                if header.producer_id >= 0:
                    follow_batch(loader.producers, header, batch)


class Inventory(NamedTuple):
    """Base offsets of the segments and offsets of the producer snapshots, ascending; whether damaged ranges are known."""

    bases: list[int]
    snapshots: list[int]
    has_damage: bool


def take_inventory(path: str) -> Inventory:
    """Lists the partition's directory after finishing what was begun:
    temporary and deleted files go, and a compaction that was swapping its result in is completed or dropped.
    """
    try:
        names = set(os.listdir(path))
    except FileNotFoundError:
        _make_directory(path)
        return Inventory([], [], has_damage=False)
    if any(name.endswith((_TEMPORARY_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        names = _finish_swaps(path, names)
    logs = {name[:20] for name in names if name.endswith(LOG_SUFFIX) and base_offset_of(name) is not None}
    for name in names:
        if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)) and name[:20] not in logs:
            unlink_if_exists(f"{path}/{name}")
    snapshots = [base_offset_of(name) for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    offsets = sorted(offset for offset in snapshots if offset is not None)
    return Inventory(sorted(map(int, logs)), offsets, DAMAGE_FILE in names)


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path)
    except FileNotFoundError:
        os.makedirs(path)


def _finish_swaps(path: str, names: set[str]) -> set[str]:
    """A `.swap` file is the result of a compaction whose sources may be gone; a `.cleaned` one was not finished."""
    cleaned = [base_offset_of(name) or 0 for name in names if name.endswith(CLEANED_SUFFIX)]
    for name in sorted(names):
        stale = name.endswith(SWAP_SUFFIX) and (base_offset_of(name) or 0) >= min(cleaned, default=1 << 63)
        if stale or name.endswith((_TEMPORARY_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX)):
            unlink_if_exists(f"{path}/{name}")
            names.discard(name)
    swaps = {name for name in names if name.endswith(SWAP_SUFFIX)}
    for swapped_log in sorted(name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        base = base_offset_of(swapped_log)
        if base is None:
            continue
        end = _end_of(f"{path}/{swapped_log}", base)
        for name in sorted(names - swaps):
            offset = base_offset_of(name)
            if offset is not None and base <= offset < end and not name.endswith(SNAPSHOT_SUFFIX):
                unlink_if_exists(f"{path}/{name}")
                names.discard(name)
    for name in sorted(swaps):
        os.replace(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
        names.discard(name)
        names.add(name.removesuffix(SWAP_SUFFIX))
    return names


def _end_of(path: str, base_offset: int) -> int:
    end = base_offset
    for _, header, _ in batches_of(path, os.stat(path).st_size, verify=False):
        end = header.next_offset
    return max(end, base_offset + 1)
