"""Invariants of a quorum, checked after each event. Each violation names its invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.replication.quorum.toy_log import Entry

if TYPE_CHECKING:
    from tests.replication.quorum.quorum_simulator import Node, Simulation


class Broken(AssertionError):
    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


ONE_LEADER = "one leader per epoch"
COMMITTED = "committed entries never change"
HIGH_WATERMARK_BACK = "the high watermark never decreases"
MAJORITY = "a majority has synced what is below the high watermark"
LOG_MATCHING = "logs that share offset and epoch are equal before it"
PROGRESS = "a healed quorum goes on"


class Invariants:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        #: By epoch: (node, its incarnation), since no node leads an epoch again after a crash.
        self.leaders: dict[int, tuple[int, int]] = {}
        self.committed: list[Entry] = []
        self._digests: dict[tuple[int, int], int] = {}

    def check(self, node: Node) -> None:
        """Checks the invariants after an event at `node`; unchanged state is not checked again."""
        replica, log = node.replica, node.log
        if replica is None:
            return
        if replica.is_leader:
            self._one_leader(node, replica.epoch)
        if replica.high_watermark < node.seen_high_watermark:
            raise Broken(HIGH_WATERMARK_BACK, f"{node.seen_high_watermark} -> {replica.high_watermark} at {node.id}")
        node.matched = self._match(node)
        if replica.high_watermark > node.seen_high_watermark or log.lowest_end < node.seen_high_watermark:
            self._committed(node)
        node.seen_high_watermark = replica.high_watermark
        log.lowest_end = log.end_offset

    def _one_leader(self, node: Node, epoch: int) -> None:
        """Checks that an epoch has one leader. An unsynced epoch has not been sent: after a crash its node may lead it
        again.
        """
        here = (node.id, node.incarnation)
        known = self.leaders.get(epoch, here)
        if node.state.leader_epoch == epoch and node.state.leader_id == node.id:
            self.leaders[epoch] = known
        if known != here:
            raise Broken(ONE_LEADER, f"{here} and {known} lead epoch {epoch}")

    def _match(self, node: Node) -> int:
        """Checks log matching from the last checked offset on. Stops at entries of an unsynced epoch: they have not
        been sent.
        """
        for offset in range(min(node.matched, node.log.lowest_end), node.log.end_offset):
            entry = node.log.entries[offset]
            if entry.epoch > node.state.leader_epoch:
                return offset
            if self._digests.setdefault((offset, entry.epoch), entry.digest) != entry.digest:
                raise Broken(LOG_MATCHING, f"offset {offset}, epoch {entry.epoch} at {node.id}")
        return node.log.end_offset

    def _committed(self, node: Node) -> None:
        assert node.replica is not None
        end = node.replica.high_watermark
        if end > node.log.end_offset:
            raise Broken(COMMITTED, f"node {node.id} has lost records below its high watermark {end}")
        known = min(end, len(self.committed))
        if node.log.entries[:known] != self.committed[:known]:
            raise Broken(COMMITTED, f"node {node.id} below {known}")
        if end > len(self.committed):
            self._synced_by_majority(node, end)
            self.committed += node.log.entries[known:end]

    def _synced_by_majority(self, node: Node, end: int) -> None:
        assert node.replica is not None
        voters, digest = node.replica.voter_set, node.log.entries[end - 1].digest
        logs = [self._simulation.nodes[voter].log for voter in voters.ids]
        having = sum(log.synced_offset >= end and log.entries[end - 1].digest == digest for log in logs)
        if having < voters.majority:
            raise Broken(MAJORITY, f"offset {end} at {node.id}: only {having} of {voters.ids}")
