"""The core of a replica of the quorum: the state that all its roles share, and elections.

- `Core`: the log, the voters, the effects, and the single transition between roles.
- `Elections`: votes are requested, granted and counted, after a pre-vote (KIP-595, KIP-996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.messages.quorum import VotePartitionRequest, VoteRequest, VoteResponse
from ...protocol.records.control import KRaftVersionRecord, VotersRecord
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from . import wire
from .log import ControlAt, Effect, ElectionState, Flush, ReplicatedLog, Reply, Send, SnapshotId, WriteState
from .roles import MAY_FOLLOW, NEVER, Candidate, Follower, Prospective, Resigned, Role, Unattached, must_hold
from .voters import NO_NODE, Address, ReplicaKey, Tally, VoterHistory, VoterSet

# ---- shared state

#: A voter stands for election almost at once after its start. If a leader exists, the pre-vote is rejected without
#: disruption.
FIRST_STANDS_MS = 50
#: Epochs are signed 32-bit numbers on the wire and in `quorum-state`.
MAX_EPOCH = (1 << 31) - 1
#: An epoch further ahead than this is rejected: at an election a second it would take half a year without a leader. A
#: replica that accepted one message with the last epoch could never elect a leader again.
MAX_EPOCH_LEAP = 1 << 24


class RandomSource(Protocol):
    """The subset of `random.Random` that elections use, so that a seed reproduces them."""

    def randrange(self, stop: int, /) -> int: ...


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

    def become_unattached(self, epoch: int, now: int, leader_id: int = NO_NODE) -> None:
        """Becomes unattached. In the same epoch the vote stays, and a running election timeout is not extended."""
        same = epoch == self.epoch
        role = Unattached(epoch, self.role.voted if same else None, leader_id)
        if self.may_stand:
            role.election_deadline = now + self.election_timeout()
            if isinstance(self.role, Unattached):
                role.election_deadline = min(role.election_deadline, max(self.role.election_deadline, now))
        self.become(role)

    def become_follower(self, epoch: int, leader_id: int, now: int) -> None:
        voted = self.role.voted if epoch == self.epoch else None
        must_hold(leader_id != self.local.id, f"{self.local} cannot follow itself")
        update_at = now + self.config.fetch_timeout_ms
        self.become(Follower(epoch, leader_id, voted, now + self.config.fetch_timeout_ms, update_voter_at=update_at))

    def is_credible(self, epoch: int) -> bool:
        """Returns whether a quorum can plausibly have reached that epoch."""
        return epoch <= self.epoch + MAX_EPOCH_LEAP

    def heard_of(self, epoch: int, leader_id: int, now: int) -> None:
        """Handles information about the leader of an epoch. Older epochs are ignored; a known leader is not replaced."""
        if not self.is_credible(epoch):
            return
        if leader_id == self.local.id or leader_id < 0:
            # The message names this node: its state before a restart, or now. An epoch above ours that this node led and
            # forgot is impossible.
            leader_id = NO_NODE
        if epoch > self.epoch:
            if leader_id == NO_NODE:
                self.become_unattached(epoch, now)
            else:
                self.become_follower(epoch, leader_id, now)
        elif epoch == self.epoch and leader_id != NO_NODE and self._lacks_leader():
            self.become_follower(epoch, leader_id, now)

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

    def can_send(self, node: int, now: int) -> bool:
        """Returns whether no request to the node is in flight."""
        return self.send_at(node) <= now

    def send_at(self, node: int) -> int:
        in_flight = self._in_flight.get(node)
        return in_flight.retry_at if in_flight is not None else 0

    def send(self, node: int, request: Message, now: int, sync_to: int = 0, address: Address | None = None) -> int:
        self._correlation += 1
        self._in_flight[node] = _InFlight(self._correlation, now + self.config.request_timeout_ms)
        self._effects.append(Send(node, self._correlation, request, sync_to, address))
        return self._correlation

    def answered(self, node: int, correlation: int, now: int, is_failure: bool) -> bool:
        """Returns whether this is the response to the last request sent to the node in this role.

        After a failure the node gets no request for the retry backoff.
        """
        in_flight = self._in_flight.get(node)
        if in_flight is None or in_flight.correlation != correlation:
            return False
        self._in_flight[node] = _InFlight(-1, now + self.config.retry_backoff_ms if is_failure else now)
        return True

    def back_off(self, node: int, now: int) -> None:
        self._in_flight[node] = _InFlight(-1, now + self.config.retry_backoff_ms)

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


# ---- elections


class Elections:
    """Requests, grants and counts votes.

    A replica votes for one candidate per epoch, whose log has all that its own has. A pre-vote is not binding. A
    replica with a live leader rejects it, so a node that returns from a network partition does not unseat a working
    leader.
    """

    def __init__(self, core: Core, lead: Callable[[int], None]) -> None:
        self._core = core
        #: Called by a candidate that has won.
        self._lead = lead

    # ---- requests from others

    def handle(self, request: VoteRequest, asked: VotePartitionRequest, now: int) -> Message:
        core = self._core
        if asked.replica_epoch < core.epoch:
            return self._respond(ErrorCode.FENCED_LEADER_EPOCH, False)
        if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.replica_id < 0:
            return self._respond(ErrorCode.INVALID_REQUEST, False)
        if asked.replica_epoch > core.epoch:
            core.become_unattached(asked.replica_epoch, now)
        called = ReplicaKey(request.voter_id, asked.voter_directory_id)
        if request.voter_id != NO_NODE and not called.matches(core.local):
            return self._respond(ErrorCode.INVALID_VOTER_KEY, False)
        candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        is_up_to_date = core.is_log_up_to_date(asked.last_offset_epoch, asked.last_offset)
        if asked.pre_vote:
            return self._respond(ErrorCode.NONE, is_up_to_date and self._misses_leader())
        return self._respond(ErrorCode.NONE, self._grant(candidate, is_up_to_date, now))

    def _misses_leader(self) -> bool:
        role = self._core.role
        if isinstance(role, Follower):
            return not role.has_fetched
        return isinstance(role, Unattached | Prospective | Candidate | Resigned)

    def _grant(self, candidate: ReplicaKey, is_up_to_date: bool, now: int) -> bool:
        role = self._core.role
        if role.voted is not None:
            return not isinstance(role, Candidate | Resigned) and role.voted == candidate
        if role.leader_id != NO_NODE or not isinstance(role, Unattached | Prospective) or not is_up_to_date:
            return False
        role.voted = candidate
        self._core.write_state()
        if isinstance(role, Unattached) and role.election_deadline != NEVER:
            # Gives the candidate time to win.
            role.election_deadline = now + self._core.election_timeout()
        return True

    def _respond(self, error: ErrorCode, granted: bool) -> Message:
        role = self._core.role
        return wire.vote_response(error, role.leader_id, role.epoch, granted)

    # ---- own requests

    def stand(self, now: int) -> None:
        """Starts a pre-vote; wins the election at once if there are no other voters."""
        core, role = self._core, self._core.role
        assert core.may_stand, f"{core.local} is not a voter"
        leader_id = NO_NODE if role.leader_id == core.local.id else role.leader_id
        tally = Tally(core.voter_set)
        core.become(Prospective(core.epoch, tally, role.voted, leader_id, now + core.election_timeout()))
        tally.record(core.local.id, True)
        self._count(now)

    def send(self, now: int) -> None:
        """Sends to all voters that have not responded and have no request in flight."""
        core, role = self._core, self._core.role
        if not isinstance(role, Prospective | Candidate):
            return
        for voter_id in role.tally.unanswered:
            if core.can_send(voter_id, now):
                voter, pre_vote = role.tally.voters.voters[voter_id].key, isinstance(role, Prospective)
                cluster_id, last = core.config.cluster_id, core.log_end
                core.send(voter_id, wire.vote_request(cluster_id, voter, core.local, core.epoch, last, pre_vote), now)

    def answered(self, node: int, response: VoteResponse, now: int) -> None:
        """Handles a vote response of the current epoch. The caller has handled newer epochs already."""
        role, partition = self._core.role, wire.response_of(response)
        if not isinstance(role, Prospective | Candidate):
            return
        if partition is None or partition.error_code != ErrorCode.NONE:
            self._core.back_off(node, now)
        elif partition.leader_epoch == role.epoch:
            role.tally.record(node, partition.vote_granted)
            self._count(now)

    def _count(self, now: int) -> None:
        core, role = self._core, self._core.role
        if isinstance(role, Prospective) and role.tally.is_won:
            tally = Tally(core.voter_set)
            core.become(Candidate(core.epoch + 1, tally, core.local, NO_NODE, now + core.election_timeout()))
            tally.record(core.local.id, True)
            self._count(now)
        elif isinstance(role, Candidate) and role.tally.is_won:
            self._lead(now)
        elif isinstance(role, Prospective) and role.tally.is_lost:
            self._give_up(role, now)
        elif isinstance(role, Candidate) and role.tally.is_lost:
            # Waits before the next attempt: other candidates need the time.
            backoff = 1 + core.rng.randrange(core.config.election_backoff_max_ms)
            role.election_deadline = min(role.election_deadline, now + backoff)

    def _give_up(self, role: Prospective, now: int) -> None:
        if role.leader_id != NO_NODE:
            self._core.become_follower(role.epoch, role.leader_id, now)
        else:
            self._core.become_unattached(role.epoch, now)

    def expire(self, now: int) -> None:
        """Handles the election timeout, if it is over."""
        core, role = self._core, self._core.role
        if isinstance(role, Follower | Unattached) or not hasattr(role, "election_deadline"):
            if isinstance(role, Unattached) and role.election_deadline <= now:
                self.stand(now) if core.may_stand else core.become_unattached(core.epoch, now, role.leader_id)
        elif role.election_deadline > now:
            pass
        elif isinstance(role, Prospective):
            self._give_up(role, now)
        elif isinstance(role, Candidate):
            self.stand(now)
        elif isinstance(role, Resigned):
            core.become_unattached(core.epoch + 1, now)
