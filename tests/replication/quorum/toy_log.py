"""An in-memory log whose disk loses unsynced entries in a crash. See replication/quorum/log.py.

`entries` start at the first one, even below `start_offset`, so that checks can compare all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.protocol.records.control import ControlRecord
from odradek.replication.quorum.log import ControlAt, EpochEnd, SnapshotId

#: So few that one response never contains everything.
ENTRIES_PER_READ = 4
#: The size of an entry, for limits in bytes.
ENTRY_BYTES = 100


class Entry(NamedTuple):
    epoch: int
    payload: Any
    #: The digest of this entry and all entries before it.
    digest: int


class ToyLog:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start_offset = 0
        self.synced_offset = 0
        #: The log end that each flush in progress will have synced.
        self.flushes: dict[int, int] = {}
        self.snapshots: list[SnapshotId] = []
        self.partial: list[Entry] = []
        #: The smallest log end since the last check.
        self.lowest_end = 0

    @property
    def end_offset(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_offset_for(self, epoch: int) -> EpochEnd:
        first = max(0, self.start_offset - 1)
        for offset in range(self.end_offset - 1, first - 1, -1):
            if self.entries[offset].epoch <= epoch:
                return EpochEnd(self.entries[offset].epoch, offset + 1)
        return EpochEnd(epoch, self.start_offset)

    def read(self, offset: int, max_bytes: int) -> list[Entry]:
        assert offset >= self.start_offset, "entries below the start exist only in the snapshot"
        return self.entries[offset : offset + min(ENTRIES_PER_READ, max(1, max_bytes // ENTRY_BYTES))]

    def append(self, epoch: int, payload: Any) -> None:
        before = self.entries[-1].digest if self.entries else 0
        self.entries.append(Entry(epoch, payload, hash((before, epoch, repr(payload)))))

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None:
        for record in records:
            self.append(epoch, record)

    def append_fetched(self, records: list[Entry], epoch: int) -> list[ControlAt]:
        assert all(entry.epoch <= epoch for entry in records)
        offset = self.end_offset
        for entry in records:
            self.append(entry.epoch, entry.payload)
        return self.controls(offset, self.end_offset)

    def controls(self, start: int, end: int) -> list[ControlAt]:
        found = enumerate(self.entries[start:end], start)
        return [ControlAt(at, entry.payload) for at, entry in found if isinstance(entry.payload, ControlRecord)]

    def truncate(self, end_offset: int) -> None:
        assert end_offset >= self.start_offset, "a snapshot contains only committed entries"
        del self.entries[end_offset:]
        self.synced_offset = min(self.synced_offset, end_offset)
        self.lowest_end = min(self.lowest_end, end_offset)
        self.flushes = {number: min(end, end_offset) for number, end in self.flushes.items()}

    # ---- snapshots

    def take_snapshot(self, end_offset: int, is_start: bool) -> None:
        """Takes a snapshot of committed and synced entries; the log below it may be deleted."""
        if end_offset > 0 and (not self.snapshots or self.snapshots[-1].end_offset < end_offset):
            self.snapshots.append(SnapshotId(end_offset, self.entries[end_offset - 1].epoch))
        if is_start and self.snapshots:
            del self.snapshots[:-1]
            self.start_offset = self.snapshots[0].end_offset

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, list[Entry]] | None:
        if snapshot not in self.snapshots:
            return None
        return snapshot.end_offset, self.entries[
            position : min(position + max_bytes // ENTRY_BYTES, snapshot.end_offset)
        ]

    def write_snapshot(self, snapshot: SnapshotId, position: int, data: list[Entry]) -> int:
        del self.partial[position:]
        self.partial += data
        return len(self.partial)

    def adopt_snapshot(self, snapshot: SnapshotId) -> list[ControlAt]:
        assert len(self.partial) == snapshot.end_offset
        self.entries, self.partial = self.partial, []
        self.snapshots, self.start_offset = [snapshot], snapshot.end_offset
        self.synced_offset, self.lowest_end, self.flushes = snapshot.end_offset, 0, {}
        return self.controls(0, snapshot.end_offset)

    # ---- the disk

    def begin_flush(self, number: int) -> None:
        self.flushes[number] = self.end_offset

    def end_flush(self, number: int) -> None:
        self.synced_offset = max(self.synced_offset, self.flushes.pop(number, 0))

    def crash(self, survivors: int) -> None:
        """Crashes: synced entries stay, and a random part of the others."""
        assert self.synced_offset <= survivors <= self.end_offset
        del self.entries[survivors:]
        self.flushes, self.partial = {}, []
        self.synced_offset = self.lowest_end = self.end_offset
