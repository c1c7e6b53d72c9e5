"""The log as a quorum replica sees it: implemented by `server/controller/raft.py` and by a toy in the simulator.

Offsets are those of the log. `append_*` may stay in the page cache until a Flush. `truncate` and `adopt_snapshot`
are on disk when they return, since truncated records must not return after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Union

from ...protocol.records.control import ControlRecord
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from .voters import NO_NODE, Address

if TYPE_CHECKING:
    from ...protocol.checksum import Buffer


class BrokenInvariant(AssertionError):
    """The state of a quorum replica is inconsistent. It must not vote, lead or follow any more."""


# Inputs and effects of a quorum replica.
#
# The driver must execute the effects that `take()` returns in order:
#
# - `WriteState` must be synced to disk BEFORE any later effect is sent. Otherwise a crash could forget a vote or an
#   epoch, and the vote would be given twice.
# - A `Send` or `Reply` with `sync_to` is sent only AFTER the log is synced below that offset. A follower's Fetch reports
#   its log end, and the leader counts on it. Those with 0 need not wait.
# - `Flush` asks for a sync of the log up to its end. The driver reports the synced offset with `Synced`. A leader counts
#   its own log only up to that offset.
#
# Changes of the replica to its log (`log.py`) take effect immediately.


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The content of `quorum-state`: the epoch, its leader if known, and the vote of this node in it."""

    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_UUID


# ---- inputs


class PeerRequest(NamedTuple):
    """A request from a peer. `token` is returned with its one Reply, now or later."""

    token: object
    request: Message


class PeerResponse(NamedTuple):
    """The outcome of a Send: the response, or None if the connection failed or the request timed out."""

    node: int
    correlation: int
    response: Message | None


class Appended(NamedTuple):
    """The controller on this node, leader of `epoch`, has appended to the log; it ends at `end_offset`."""

    epoch: int
    end_offset: int


class Synced(NamedTuple):
    """The log is synced to disk below `end_offset`."""

    end_offset: int


class Resign(NamedTuple):
    """A request to resign, in favour of a successor on shutdown. Only a leader acts on it."""


class LeaderGone(NamedTuple):
    """The leader's host reports that nothing listens on its port: its process has died. The report may be wrong."""

    node: int


class RaiseKRaftVersion(NamedTuple):
    """A request to the leader to write an upgrade of kraft.version that it has accepted."""

    version: int


Input = Union[PeerRequest, PeerResponse, Appended, Synced, Resign, LeaderGone, RaiseKRaftVersion]


# ---- effects


class WriteState(NamedTuple):
    state: ElectionState


class Flush(NamedTuple):
    end_offset: int


class Send(NamedTuple):
    """A request to a node. `address` overrides the address of `node` (for a voter about to be added)."""

    node: int
    correlation: int
    request: Message
    sync_to: int = 0
    address: Address | None = None


class Reply(NamedTuple):
    token: object
    response: Message
    sync_to: int = 0


Effect = Union[WriteState, Flush, Send, Reply]


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

    def read(self, offset: int, max_bytes: int) -> Any:
        """Returns whole batches from `offset` on, at least one, in the form of a FetchResponse's records."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None: ...

    def append_fetched(self, records: Buffer) -> Sequence[ControlAt]:
        """Appends the batches of a FetchResponse at the log end. Returns the control records in them."""

    def truncate(self, end_offset: int) -> None: ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, Buffer] | None:
        """Returns (total size, bytes from `position` on); None if there is no such snapshot."""

    def write_snapshot(self, snapshot: SnapshotId, position: int, data: Buffer) -> int:
        """Writes a fetched part and returns the position after it."""

    def adopt_snapshot(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        """Replaces the log with a complete snapshot; the log starts and ends after it. Returns its control records."""
