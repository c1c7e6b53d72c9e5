"""What a replica of the quorum sees of its log: `server/quorum_replicated_log.py` is one, the simulator has a toy.

Offsets are the log's own. `append_*` may stay in the page cache until a Flush; `truncate` and `adopt_snapshot` are on the
disk when they return, since what was cut must not come back with a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ...protocol.records.control import ControlRecord


class SnapshotId(NamedTuple):
    """Everything below `end_offset`; the last record of it is of `epoch`."""

    end_offset: int
    epoch: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class ControlAt(NamedTuple):
    """A control record, where it stands in the log; in a snapshot: the last offset that it contains."""

    offset: int
    record: ControlRecord


class ReplicatedLog(Protocol):
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """Of the last record, or of the snapshot that the log starts behind; 0 when there is neither."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...
    @property
    def latest_snapshot(self) -> SnapshotId | None: ...

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest epoch known that is not above `epoch`, and where it ends; the log's start where none is known."""

    def read(self, offset: int, max_bytes: int) -> Any:
        """Whole batches from `offset` on, at least one: what a FetchResponse holds as its records."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None: ...

    def append_fetched(self, records: Any) -> Sequence[ControlAt]:
        """The batches of a FetchResponse, which begin at the end; the control records that were in them."""

    def truncate(self, end_offset: int) -> None: ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, Any] | None:
        """(size of the whole, bytes from `position` on); None when there is no such snapshot."""

    def write_snapshot(self, snapshot: SnapshotId, position: int, data: Any) -> int:
        """Keeps a part that was fetched, and returns the position behind it."""

    def adopt_snapshot(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        """The snapshot is whole: it replaces the log, which starts and ends behind it. Its control records."""
