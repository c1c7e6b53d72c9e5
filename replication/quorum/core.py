"""The core of a replica of the quorum: the state that all its roles share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.internal.control_records import KRaftVersionRecord, VotersRecord
from ...protocol.node_ids import NO_NODE
from ...protocol.schema import Message, Request
from ...protocol.uuids import ZERO_UUID
from .diverged_commit import must_hold
from .effects import Effect, ElectionState, Flush, Reply, Send, WriteState
from .log import ControlAt, ReplicatedLog, SnapshotId
from .roles import MAY_FOLLOW, Follower, Role, Unattached
from .voters import Address, ReplicaKey, VoterHistory, VoterSet

if TYPE_CHECKING:
    from ..random_source import RandomSource


#: A voter stands for election almost at once after its start. If a leader exists, the pre-vote is rejected without
#: disruption.
FIRST_STANDS_MS = 50
#: Epochs are signed 32-bit numbers on the wire and in `quorum-state`.
MAX_EPOCH = (1 << 31) - 1
#: An epoch further ahead than this is rejected: at an election a second it would take half a year without a leader. A
#: replica that accepted one message with the last epoch could never elect a leader again.
MAX_EPOCH_LEAP = 1 << 24


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """`controller.quorum.*`, with Kafka's defaults."""

    cluster_id: str
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    #: Nodes that an observer asks for the leader, besides the voters.
    bootstrap: tuple[int, ...] = ()
    #: The limit for one fetch response.
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    #: An observer asks to become a voter, after removing its node's voter with another directory (KIP-1186).
    auto_join: bool = False
    #: The addresses of this node's own controller listeners.
    addresses: tuple[Address, ...] = ()

    @property
    def check_quorum_timeout_ms(self) -> int:
        """Returns 1.5 times the fetch timeout of followers, so that they give up first (KAFKA-15489)."""
        return self.fetch_timeout_ms * 3 // 2


class _InFlight(NamedTuple):
    correlation: int
    #: The time before which no other request is sent to that node, unless it responds.
    retry_at: int


class Core:
    def __init__(
        self,
        local: ReplicaKey,
        config: QuorumConfig,
        log: ReplicatedLog,
        voters: VoterHistory,
        state: ElectionState,
        rng: RandomSource,
        acknowledged: SnapshotId | None = None,
    ) -> None:
        #: The log end before the disk lost the end of the log; None if nothing is lost.
        self.acknowledged = acknowledged
        self.local = local
        self.config = config
        self.log = log
        self.voters = voters
        self.rng = rng
        #: Everything below it is committed. It may lag behind the high watermark of the leader; it never decreases.
        self.high_watermark = log.latest_snapshot.end_offset if log.latest_snapshot is not None else 0
        self.role: Role = Unattached(state.leader_epoch)
        self._written = state
        self._effects: list[Effect] = []
        self._correlation = 0
        self._in_flight: dict[int, _InFlight] = {}

    # ---- identity, role and epoch

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def voter_set(self) -> VoterSet:
        return self.voters.current

    @property
    def is_voter(self) -> bool:
        return self.local in self.voters.current

    @property
    def may_stand(self) -> bool:
        """Returns whether this replica may stand for election.

        A voter may. A former voter may, as long as its removal is not known to be committed: it may be the only one
        with a log that wins. A replica whose disk has lost acknowledged records waits until it has them again, or
        their replacement.
        """
        if self.lacks_acknowledged:
            return False
        if self.is_voter:
            return True
        return self.voters.current_offset >= self.high_watermark and self.local in self.voters.previous

    @property
    def lacks_acknowledged(self) -> bool:
        """Returns whether the log ends before what this replica has acknowledged to leaders."""
        lost = self.acknowledged
        return lost is not None and (self.log.last_epoch, self.log.end_offset) < (lost.epoch, lost.end_offset)

    @property
    def log_end(self) -> SnapshotId:
        return SnapshotId(self.log.end_offset, self.log.last_epoch)

    def others(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.voter_set.voters.values() if voter.key.id != self.local.id]

    def is_log_up_to_date(self, last_epoch: int, last_offset: int) -> bool:
        """Returns whether a log with that end has all that ours has, or had (Raft's election restriction)."""
        ours, lost = (self.log.last_epoch, self.log.end_offset), self.acknowledged
        if lost is not None:
            ours = max(ours, (lost.epoch, lost.end_offset))
        return (last_epoch, last_offset) >= ours

    # ---- role transitions

    def become(self, role: Role) -> None:
        """Changes the role; the only way to do so. Durable state is written before anything is sent in the
        new role.
        """
        before = self.role
        must_hold(type(role) in MAY_FOLLOW[type(before)], f"{before} may not become {role}")
        must_hold(role.epoch >= before.epoch, f"epoch {before.epoch} goes back to {role.epoch}")
        must_hold(role.epoch <= MAX_EPOCH, f"no epoch is left after {before.epoch}")
        if role.epoch == before.epoch and before.voted is not None:
            must_hold(role.voted == before.voted, f"the vote of epoch {role.epoch} changes from {before.voted}")
        self.role = role
        self._in_flight.clear()
        self.write_state()

    def write_state(self) -> None:
        voted = self.role.voted or ReplicaKey(NO_NODE, ZERO_UUID)
        state = ElectionState(self.role.leader_id, self.role.epoch, voted.id, voted.directory_id)
        if state != self._written:
            self._written = state
            self._effects.append(WriteState(state))

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int = NO_NODE) -> None:
        """Becomes unattached. In the same epoch the vote stays, and a running election timeout is not extended."""
        same = epoch == self.epoch
        role = Unattached(epoch, self.role.voted if same else None, leader_id)
        if self.may_stand:
            role.election_deadline = now_ms + self.election_timeout()
            if isinstance(self.role, Unattached):
                role.election_deadline = min(role.election_deadline, max(self.role.election_deadline, now_ms))
        self.become(role)

    def become_follower(self, epoch: int, leader_id: int, now_ms: int) -> None:
        voted = self.role.voted if epoch == self.epoch else None
        must_hold(leader_id != self.local.id, f"{self.local} cannot follow itself")
        update_at = now_ms + self.config.fetch_timeout_ms
        self.become(Follower(epoch, leader_id, voted, now_ms + self.config.fetch_timeout_ms, update_voter_at=update_at))

    def is_credible(self, epoch: int) -> bool:
        """Returns whether a quorum can plausibly have reached that epoch."""
        return epoch <= self.epoch + MAX_EPOCH_LEAP

    def heard_of(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Handles information about the leader of an epoch. Older epochs are ignored; a known leader is not replaced."""
        if not self.is_credible(epoch):
            return
        if leader_id == self.local.id or leader_id < 0:
            # The message names this node: its state before a restart, or now. An epoch above ours that this node led and
            # forgot is impossible.
            leader_id = NO_NODE
        if epoch > self.epoch:
            if leader_id == NO_NODE:
                self.become_unattached(epoch, now_ms)
            else:
                self.become_follower(epoch, leader_id, now_ms)
        elif epoch == self.epoch and leader_id != NO_NODE and self._lacks_leader():
            self.become_follower(epoch, leader_id, now_ms)

    def _lacks_leader(self) -> bool:
        """Returns whether no leader is known. A replica that stands because its leader timed out keeps that leader
        here, so another replica's response does not send it back.
        """
        return isinstance(self.role, Unattached) or self.role.leader_id == NO_NODE

    def election_timeout(self) -> int:
        """Returns between one and two times the configured timeout, so that two replicas seldom stand at once."""
        return self.config.election_timeout_ms + self.rng.randrange(self.config.election_timeout_ms)

    def first_election_timeout(self) -> int:
        """Returns the timeout after a start: a cluster that has just started has no leader to wait for."""
        return self.rng.randrange(min(FIRST_STANDS_MS, self.config.election_timeout_ms))

    # ---- output

    def take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def reply(self, token: object, response: Message) -> None:
        self._effects.append(Reply(token, response))

    def flush(self) -> None:
        self._effects.append(Flush(self.log.end_offset))

    def can_send(self, node: int, now_ms: int) -> bool:
        """Returns whether no request to the node is in flight."""
        return self.send_at(node) <= now_ms

    def send_at(self, node: int) -> int:
        in_flight = self._in_flight.get(node)
        return in_flight.retry_at if in_flight is not None else 0

    def send(self, node: int, request: Request, now_ms: int, sync_to: int = 0, address: Address | None = None) -> int:
        self._correlation += 1
        self._in_flight[node] = _InFlight(self._correlation, now_ms + self.config.request_timeout_ms)
        self._effects.append(Send(node, self._correlation, request, sync_to, address))
        return self._correlation

    def answered(self, node: int, correlation: int, now_ms: int, is_failure: bool) -> bool:
        """Returns whether this is the response to the last request sent to the node in this role.

        After a failure the node gets no request for the retry backoff.
        """
        in_flight = self._in_flight.get(node)
        if in_flight is None or in_flight.correlation != correlation:
            return False
        self._in_flight[node] = _InFlight(-1, now_ms + self.config.retry_backoff_ms if is_failure else now_ms)
        return True

    def back_off(self, node: int, now_ms: int) -> None:
        self._in_flight[node] = _InFlight(-1, now_ms + self.config.retry_backoff_ms)

    # ---- the log

    def learn(self, controls: Iterable[ControlAt]) -> None:
        """Applies control records of the log or of a snapshot. The newest voter set is effective at once."""
        for offset, record in controls:
            if isinstance(record.message, VotersRecord):
                self.voters.add(offset, VoterSet.from_record(record.message))
            elif isinstance(record.message, KRaftVersionRecord):
                self.voters.set_kraft_version(offset, record.message.kraft_version)

    def advance_high_watermark(self, offset: int) -> bool:
        """Advances the high watermark, at most to the log end. Returns whether it advanced."""
        offset = min(offset, self.log.end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True
