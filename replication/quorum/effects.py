"""Inputs and effects of a quorum replica.

The driver must execute the effects that `take()` returns in order:

- `WriteState` must be synced to disk BEFORE any later effect is sent. Otherwise a crash could forget a vote or an
  epoch, and the vote would be given twice.
- A `Send` or `Reply` with `sync_to` is sent only AFTER the log is synced below that offset. A follower's Fetch reports
  its log end, and the leader counts on it. Those with 0 need not wait.
- `Flush` asks for a sync of the log up to its end. The driver reports the synced offset with `Synced`. A leader counts
  its own log only up to that offset.

Changes of the replica to its log (`log.py`) take effect immediately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Union

from ...protocol.node_ids import NO_NODE
from ...protocol.schema import Message, Request
from ...protocol.uuids import ZERO_UUID
from .voters import Address


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The content of `quorum-state`: the epoch, its leader if known, and the vote of this node in it."""

    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_UUID


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


class WriteState(NamedTuple):
    state: ElectionState


class Flush(NamedTuple):
    end_offset: int


class Send(NamedTuple):
    """A request to a node. `address` overrides the address of `node` (for a voter about to be added)."""

    node: int
    correlation: int
    request: Request
    sync_to: int = 0
    address: Address | None = None


class Reply(NamedTuple):
    token: object
    response: Message
    sync_to: int = 0


Effect = Union[WriteState, Flush, Send, Reply]
