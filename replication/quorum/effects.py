"""What goes into a replica of the quorum, and what comes out of it.

The effects that `take()` returns are in order, and the order is a promise that the driver keeps:

- `WriteState` must be on the disk, synced, BEFORE any effect behind it in the list goes out: a vote, or an epoch, that is
  forgotten in a crash would be given twice.
- A `Send` or `Reply` with `sync_to` goes out only AFTER the log is synced below that offset: a follower's Fetch says what
  it has, and the leader counts on it. Those with 0 need not wait.
- `Flush` asks for a sync of the log up to its end; the driver tells by `Synced` what the disk has then. A leader counts
  itself only by that.

What the replica does to its log (`log.py`) is done at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Union

from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from .voters import NOBODY, Address


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What `quorum-state` holds: the epoch, who leads it as far as known, and for whom this node voted in it."""

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: bytes = ZERO_UUID


# ---- in


class PeerRequest(NamedTuple):
    """Somebody's request; `token` comes back with the Reply, once, now or later."""

    token: object
    request: Message


class PeerResponse(NamedTuple):
    """What became of a Send: its response, or None when the connection failed or its time was over."""

    node: int
    correlation: int
    response: Message | None


class Appended(NamedTuple):
    """The controller on this node, which leads in `epoch`, has appended to the log; it ends at `end_offset`."""

    epoch: int
    end_offset: int


class Synced(NamedTuple):
    """The disk has all of the log below `end_offset`."""

    end_offset: int


class Resign(NamedTuple):
    """A leader steps down (on shutdown: to a successor); anybody else need not."""


class LeaderGone(NamedTuple):
    """The leader's machine says that nobody listens there any more: its process has died. It may be wrong."""

    node: int


class RaiseKRaftVersion(NamedTuple):
    """The leader, which refuses no such upgrade, is to write it."""

    version: int


Input = Union[PeerRequest, PeerResponse, Appended, Synced, Resign, LeaderGone, RaiseKRaftVersion]


# ---- out


class WriteState(NamedTuple):
    state: ElectionState


class Flush(NamedTuple):
    end_offset: int


class Send(NamedTuple):
    """A request to a node; `address` where it is known better than by `node` (a voter that is about to be)."""

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
