"""The log as a quorum replica sees it: implemented by `server/controller/raft.py` and by a toy in the simulator.

Offsets are those of the log. `append_*` may stay in the page cache until a Flush. `truncate` and `adopt_snapshot`
are on disk when they return, since truncated records must not return after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.records.control import ControlRecord

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.schema import Records


class SnapshotId(NamedTuple):
    """A snapshot of everything below `end_offset`; its last record has `epoch`."""

    end_offset: int
    epoch: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class ControlAt(NamedTuple):
    """A control record and its offset in the log; in a snapshot, the last offset that the snapshot contains."""

    offset: int
    record: ControlRecord


class ReplicatedLog(Protocol):
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """Returns the epoch of the last record, or of the snapshot before the log start; 0 if there is neither."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...
    @property
    def latest_snapshot(self) -> SnapshotId | None: ...

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """Returns the largest known epoch not above `epoch`, and its end offset; the log start offset if none is known."""

    def read(self, offset: int, max_bytes: int) -> Records:
        """Returns whole batches from `offset` on, at least one, in the form of a FetchResponse's records."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None: ...

    def append_fetched(self, records: Buffer, epoch: int) -> Sequence[ControlAt]:
        """Appends the batches of a FetchResponse of the leader of `epoch` at the log end. Returns the control records in
        them.
        """

    def truncate(self, end_offset: int) -> None: ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, Buffer] | None:
        """Returns (total size, bytes from `position` on); None if there is no such snapshot."""

    def write_snapshot(self, snapshot: SnapshotId, position: int, data: Buffer) -> int:
        """Writes a fetched part and returns the position after it."""

    def adopt_snapshot(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        """Replaces the log with a complete snapshot; the log starts and ends after it. Returns its control records."""
