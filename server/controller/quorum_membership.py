"""This node's part in the quorum: as its only voter, or as a Raft replica among several nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...storage.files.failures import LogDirectoryFailure
from .lone_voter import LoneVoter
from .metadata_log import QuorumLog
from .metadata_snapshots import SnapshotId
from .quorum_voters import QuorumVoters

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .commit_engine import CommitEngine
    from .raft import QuorumRaft
    from .registration import Registration

log = logging.getLogger("odradek.quorum")


class QuorumMembership:
    """The engine of commits on this node: a single voter becomes a Raft replica with the first request of another node.

    `opened` is called when the log is open, and then `lead_alone` or `join`.

    - `committed` is called with the offset below which everything is committed, while this node is the only voter;
    - `changed` when the leader or the high watermark may have changed, from the first other node on;
    - `replaced` with each snapshot that has replaced the log;
    - `failed` when the disk fails, or the state of the quorum contradicts itself.
    """

    def __init__(
        self,
        node: Node,
        registration: Registration,
        peers: Lazy[Peers],
        *,
        committed: Callable[[int], None],
        changed: Callable[[], None],
        replaced: Callable[[SnapshotId], None],
        failed: Callable[[Exception], None],
    ) -> None:
        #: The Raft driver; None while this node is the only one in the quorum.
        self.raft: QuorumRaft | None = None
        #: None before the start.
        self.engine: CommitEngine | None = None
        self._node = node
        self._registration = registration
        self._peers = peers
        self._committed = committed
        self._changed = changed
        self._replaced = replaced
        self._failed = failed
        self._quorum_log: QuorumLog | None = None

    # State.

    @property
    def log(self) -> QuorumLog:
        assert self._quorum_log is not None, "the controller has not been started"
        return self._quorum_log

    @property
    def epoch(self) -> int:
        """The leader's epoch at this node. It rises with each election and with each start of a single voter."""
        return 0 if self.engine is None else self.engine.epoch

    @property
    def kraft_version(self) -> int:
        """The KRaft version of the metadata log: with version 1 the log contains its voters (KIP-853)."""
        return self.log.quorum.kraft_version if self.engine is None else self.engine.kraft_version

    @property
    def leads(self) -> bool:
        """True while this node may append records: as the only voter, or as the replica that leads."""
        return self.engine is not None and self.engine.leads

    @property
    def is_caught_up(self) -> bool:
        """True when this node has everything that is known to be committed."""
        return self.engine is None or self.engine.is_caught_up

    def voters_at(self, end_offset: int) -> QuorumVoters:
        """Returns the voters and the KRaft version in the log below that offset."""
        return self.log.quorum if self.engine is None else self.engine.voters_at(end_offset)

    # Beginning.

    def opened(self, quorum_log: QuorumLog) -> None:
        self._quorum_log = quorum_log

    def lead_alone(self, epoch: int, epoch_start_offset: int) -> None:
        """Begins as the only voter. Everything in the log is committed."""
        self.engine = LoneVoter(self._node, self.log, epoch, epoch_start_offset, self._committed, self._failed)

    def join(self) -> QuorumRaft:
        """Begins as one of several nodes. Everything in the log is flushed. The caller begins the returned replica."""
        raft = self._join(None)
        raft.replicated.synced_offset = self.log.end_offset
        return raft

    def joined(self) -> QuorumRaft:
        """Returns the Raft driver. A single voter switches to a replica that communicates with other nodes."""
        if self.raft is None:
            alone = self.engine
            assert isinstance(alone, LoneVoter)
            alone.retire()
            raft = self._join(alone.epoch_start_offset)
            raft.replicated.synced_offset = alone.offset
            raft.on_synced(alone.offset)
            if self.log.end_offset > alone.offset:
                raft.appended()
            return raft
        return self.raft

    def _join(self, leads_from: int | None) -> QuorumRaft:
        from .joining import join, monotonic_clock

        self.engine = self.raft = join(
            self._node,
            self._registration,
            self._peers,
            self.log,
            monotonic_clock(self._node.clock),
            changed=self._changed,
            failed=self._failed,
            adopted=self._replaced,
            leads_from=leads_from,
        )
        return self.raft

    # Work.

    def appended(self) -> None:
        """Handles records that this node's controller has appended to the log."""
        if self.engine is not None:
            self.engine.appended()

    async def until_idle(self) -> None:
        """Waits until everything that a single voter has appended is committed, or the disk has failed."""
        if self.engine is not None:
            await self.engine.until_idle()

    def halt(self) -> None:
        """Stops to take part in the quorum, after a failure."""
        if self.engine is not None:
            self.engine.halt()

    async def leave(self) -> None:
        """Makes a leader of several nodes step down, and ends the last flush."""
        if self.engine is not None:
            await self.engine.leave()

    def close(self) -> None:
        """Closes the log."""
        if self._quorum_log is not None:
            try:
                self._quorum_log.close(self._node.clock.now_ms())
            except LogDirectoryFailure as failure:
                log.error("closing the metadata log: %s", failure)
