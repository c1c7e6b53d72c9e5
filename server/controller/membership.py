"""This node's part in the quorum: as its only voter, or as a Raft replica among several nodes; and the leader it follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.node_ids import NO_NODE
from ...storage.files.failures import LogDirectoryFailure
from ..runtime.counters import LeaderlessTimes
from .metadata_batches import FLUSH_RETRY_S, FLUSH_TASK, QuorumVoters
from .metadata_log import QuorumLog
from .metadata_snapshots import SnapshotId

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .raft import QuorumRaft
    from .registration import Registration

log = logging.getLogger("odradek.quorum")


class QuorumLeader(NamedTuple):
    """The leader of the quorum. `is_active`: this node leads and its controller is active."""

    id: int = NO_NODE
    epoch: int = 0
    is_active: bool = False


class KnownLeader:
    """The quorum's leader at this node, and the times without one."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.leader = QuorumLeader()
        self.leaderless = LeaderlessTimes()
        self.on_changed: list[Callable[[], None]] = []
        self._now_ms = now_ms

    def note(self, leader: QuorumLeader) -> None:
        if leader == self.leader:
            return
        self.leader = leader
        self.leaderless.leader_is(leader.id, self._now_ms())
        if leader.id == NO_NODE:
            log.info("the quorum has no known leader in epoch %d", leader.epoch)
        elif leader.is_active:
            log.info("this node is the active controller in epoch %d", leader.epoch)
        else:
            log.info("node %d leads the quorum in epoch %d", leader.id, leader.epoch)
        for function in list(self.on_changed):
            function()


class CommitEngine(Protocol):
    """Commits what is appended to the metadata log: the only voter (`LoneVoter`), or a Raft replica (`QuorumRaft`)."""

    @property
    def epoch(self) -> int: ...
    @property
    def kraft_version(self) -> int: ...
    @property
    def leads(self) -> bool:
        """True while this node may append records."""

    @property
    def is_caught_up(self) -> bool:
        """True when this node has everything that is known to be committed."""

    def voters_at(self, end_offset: int) -> QuorumVoters:
        """Returns the voters and the KRaft version in the log below that offset."""

    def appended(self) -> None:
        """Handles records that this node's controller has appended to the log."""

    async def until_idle(self) -> None:
        """Waits until everything that a single voter has appended is committed, or the disk has failed."""

    def halt(self) -> None:
        """Stops to take part in the quorum, after a failure."""

    async def leave(self) -> None:
        """Makes a leader of several nodes step down, and ends the last flush."""


class LoneVoter:
    """Commits for a single voter, whose epoch begins at `epoch_start_offset`. `committed(end_offset)` is called for
    everything that is durable, `failed` when the disk fails.

    Records on the voter's disk are committed, since it is the majority.

    All appends in one turn of the event loop share one flush, which a thread runs; appends during a flush share the
    next one. No other node is involved, so no Raft state machine is created, which keeps the start fast. When another
    node fetches, the driver switches to one (`joining.py`).
    """

    leads = True
    is_caught_up = True

    def __init__(
        self,
        node: Node,
        quorum_log: QuorumLog,
        epoch: int,
        epoch_start_offset: int,
        committed: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self._quorum_log = quorum_log
        self._now_ms = node.clock.now_ms
        self._flushing = node.pools.metadata
        self._committed = committed
        self._failed = failed
        self._background = node.background
        self._committing: asyncio.Task[None] | None = None
        self._is_retired = False
        #: Everything below this offset is committed.
        self.offset = quorum_log.end_offset

    def appended(self) -> None:
        if self._committing is None:
            # The task begins in the next turn of the event loop, so one flush covers all appends of this turn.
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        try:
            while self._quorum_log.end_offset > self.offset:
                end_offset = self._quorum_log.end_offset
                flush = self._quorum_log.prepare_flush()
                if flush is not None:
                    await self._flushing.run(flush.run)
                    self._quorum_log.flushed(flush, self._now_ms())
                if self._is_retired:
                    return
                self.offset = end_offset
                self._committed(end_offset)
            self._background.succeeded(FLUSH_TASK)
        except LogDirectoryFailure as failure:
            self._failed(failure)
        except Exception as failure:
            self._background.failed(FLUSH_TASK, failure)
            asyncio.get_running_loop().call_later(FLUSH_RETRY_S, self._commit_again)
        finally:
            self._committing = None

    def _commit_again(self) -> None:
        if not self._is_retired and self._quorum_log.end_offset > self.offset:
            self.appended()

    @property
    def kraft_version(self) -> int:
        return self._quorum_log.quorum.kraft_version

    def voters_at(self, end_offset: int) -> QuorumVoters:
        return self._quorum_log.quorum

    def halt(self) -> None:
        """Nothing: a disk that fails has ended the flushes."""

    async def leave(self) -> None:
        """Nothing: there is no other voter that could follow."""

    def retire(self) -> None:
        """Stops committing: other voters count from now on."""
        self._is_retired = True

    async def until_idle(self) -> None:
        """Waits until everything appended is committed, or the disk has failed."""
        while self._committing is not None:
            await asyncio.shield(self._committing)


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
            raft.is_synced(alone.offset)
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
