"""Elections of the quorum: pre-votes, votes and timeouts (KIP-595, KIP-996)."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.vote import VotePartitionRequest, VoteRequest, VoteResponse
from ...protocol.node_ids import NO_NODE
from ...protocol.schema import Message
from . import wire
from .core import Core
from .roles import NEVER, Candidate, Follower, Prospective, Resigned, Unattached
from .voters import ReplicaKey, Tally


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

    def handle(self, request: VoteRequest, asked: VotePartitionRequest, now_ms: int) -> Message:
        core = self._core
        if asked.replica_epoch < core.epoch:
            return self._respond(ErrorCode.FENCED_LEADER_EPOCH, False)
        if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.replica_id < 0:
            return self._respond(ErrorCode.INVALID_REQUEST, False)
        if asked.replica_epoch > core.epoch:
            core.become_unattached(asked.replica_epoch, now_ms)
        called = ReplicaKey(request.voter_id, asked.voter_directory_id)
        if request.voter_id != NO_NODE and not called.matches(core.local):
            return self._respond(ErrorCode.INVALID_VOTER_KEY, False)
        candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        is_up_to_date = core.is_log_up_to_date(asked.last_offset_epoch, asked.last_offset)
        if asked.pre_vote:
            return self._respond(ErrorCode.NONE, is_up_to_date and self._misses_leader())
        return self._respond(ErrorCode.NONE, self._grant(candidate, is_up_to_date, now_ms))

    def _misses_leader(self) -> bool:
        role = self._core.role
        if isinstance(role, Follower):
            return not role.has_fetched
        return isinstance(role, Unattached | Prospective | Candidate | Resigned)

    def _grant(self, candidate: ReplicaKey, is_up_to_date: bool, now_ms: int) -> bool:
        role = self._core.role
        if role.voted is not None:
            return not isinstance(role, Candidate | Resigned) and role.voted == candidate
        if role.leader_id != NO_NODE or not isinstance(role, Unattached | Prospective) or not is_up_to_date:
            return False
        role.voted = candidate
        self._core.write_state()
        if isinstance(role, Unattached) and role.election_deadline != NEVER:
            # Gives the candidate time to win.
            role.election_deadline = now_ms + self._core.election_timeout()
        return True

    def _respond(self, error: ErrorCode, granted: bool) -> Message:
        role = self._core.role
        return wire.vote_response(error, role.leader_id, role.epoch, granted)

    # ---- own requests

    def stand(self, now_ms: int) -> None:
        """Starts a pre-vote; wins the election at once if there are no other voters."""
        core, role = self._core, self._core.role
        assert core.may_stand, f"{core.local} is not a voter"
        leader_id = NO_NODE if role.leader_id == core.local.id else role.leader_id
        tally = Tally(core.voter_set)
        core.become(Prospective(core.epoch, tally, role.voted, leader_id, now_ms + core.election_timeout()))
        tally.record(core.local.id, True)
        self._count(now_ms)

    def send(self, now_ms: int) -> None:
        """Sends to all voters that have not responded and have no request in flight."""
        core, role = self._core, self._core.role
        if not isinstance(role, Prospective | Candidate):
            return
        for voter_id in role.tally.unanswered:
            if core.can_send(voter_id, now_ms):
                voter, pre_vote = role.tally.voters.voters[voter_id].key, isinstance(role, Prospective)
                cluster_id, last = core.config.cluster_id, core.log_end
                core.send(
                    voter_id, wire.vote_request(cluster_id, voter, core.local, core.epoch, last, pre_vote), now_ms
                )

    def answered(self, node: int, response: VoteResponse, now_ms: int) -> None:
        """Handles a vote response of the current epoch. The caller has handled newer epochs already."""
        role, partition = self._core.role, wire.response_of(response)
        if not isinstance(role, Prospective | Candidate):
            return
        if partition is None or partition.error_code != ErrorCode.NONE:
            self._core.back_off(node, now_ms)
        elif partition.leader_epoch == role.epoch:
            role.tally.record(node, partition.vote_granted)
            self._count(now_ms)

    def _count(self, now_ms: int) -> None:
        core, role = self._core, self._core.role
        if isinstance(role, Prospective) and role.tally.is_won:
            tally = Tally(core.voter_set)
            core.become(Candidate(core.epoch + 1, tally, core.local, NO_NODE, now_ms + core.election_timeout()))
            tally.record(core.local.id, True)
            self._count(now_ms)
        elif isinstance(role, Candidate) and role.tally.is_won:
            self._lead(now_ms)
        elif isinstance(role, Prospective) and role.tally.is_lost:
            self._give_up(role, now_ms)
        elif isinstance(role, Candidate) and role.tally.is_lost:
            # Waits before the next attempt: other candidates need the time.
            backoff = 1 + core.rng.randrange(core.config.election_backoff_max_ms)
            role.election_deadline = min(role.election_deadline, now_ms + backoff)

    def _give_up(self, role: Prospective, now_ms: int) -> None:
        if role.leader_id != NO_NODE:
            self._core.become_follower(role.epoch, role.leader_id, now_ms)
        else:
            self._core.become_unattached(role.epoch, now_ms)

    def expire(self, now_ms: int) -> None:
        """Handles the election timeout, if it is over."""
        core, role = self._core, self._core.role
        if isinstance(role, Follower | Unattached) or not hasattr(role, "election_deadline"):
            if isinstance(role, Unattached) and role.election_deadline <= now_ms:
                self.stand(now_ms) if core.may_stand else core.become_unattached(core.epoch, now_ms, role.leader_id)
        elif role.election_deadline > now_ms:
            pass
        elif isinstance(role, Prospective):
            self._give_up(role, now_ms)
        elif isinstance(role, Candidate):
            self.stand(now_ms)
        elif isinstance(role, Resigned):
            core.become_unattached(core.epoch + 1, now_ms)
