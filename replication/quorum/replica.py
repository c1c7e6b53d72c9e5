"""One replica of the quorum: the interface of the state machine. See the package's docstring, and `log.py`.

`handle` and `expire` accept a clock that jumps. A jump forward costs an election at worst. A step back is ignored, so
that no timer waits for a time already past. After each call the driver executes what `take()` returns, in order, and
sets its timer to `deadline()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import ApiVersionsResponse
from ...protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ...protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ...protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from ...protocol.messages.vote import VoteRequest, VoteResponse
from ...protocol.node_ids import NO_NODE
from ...protocol.schema import Message
from . import wire
from .core import Core, QuorumConfig
from .effects import (
    Appended,
    Effect,
    ElectionState,
    Input,
    LeaderGone,
    PeerRequest,
    PeerResponse,
    RaiseKRaftVersion,
    Synced,
)
from .elections import Elections
from .following import Following
from .kraft_version import error_text, upgrade_records
from .leading import Leading
from .log import ReplicatedLog, SnapshotId
from .roles import NEVER, Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from .voter_changes import VoterChanges, is_voter_request
from .voters import ReplicaKey, VoterHistory, VoterSet

if TYPE_CHECKING:
    from ...protocol.messages.begin_quorum_epoch import BeginEpochPartitionRequest
    from ...protocol.messages.end_quorum_epoch import EndEpochPartitionRequest
    from ..random_source import RandomSource


class Remembered(NamedTuple):
    """The memory of a replica at its start, besides the log. `state`: the content of `quorum-state`.

    `leads_from`: this node leads the epoch of `state` already, as the only voter, with records from that offset on; it
    needed no quorum for that. `acknowledged`: the log end before the disk lost the end of the log. Until the log
    reaches it again, the replica does not stand for election, and votes as if it still had that log. So the lost
    records cost no committed record.
    """

    state: ElectionState
    leads_from: int | None = None
    acknowledged: SnapshotId | None = None


class QuorumReplica:
    """A quorum replica. `voters`: those of the log, or of the configuration. `now_ms`: in ms; see `handle`."""

    def __init__(
        self,
        local: ReplicaKey,
        config: QuorumConfig,
        log: ReplicatedLog,
        voters: VoterHistory,
        remembered: Remembered,
        rng: RandomSource,
        now_ms: int,
    ) -> None:
        state, leads_from, acknowledged = remembered
        self._core = core = Core(local, config, log, voters, state, rng, acknowledged)
        self._leading = Leading(core)
        self._elections = Elections(core, self._leading.begin)
        self._following = Following(core, self._elections.stand)
        self._changes = VoterChanges(core, self._leading)
        #: Our time, which never decreases, and its distance to the driver's clock.
        self._now, self._ahead = now_ms, 0
        if leads_from is None:
            self._start(state, now_ms)
        else:
            self._leading.resume(leads_from)
        self._settle(now_ms)

    def _start(self, state: ElectionState, now_ms: int) -> None:
        """Sets the first role: a former leader does not lead its epoch again, a vote stays, and the leader must be
        found.
        """
        core = self._core
        voted = None if state.voted_id == NO_NODE else ReplicaKey(state.voted_id, state.voted_directory_id)
        until = now_ms + core.first_election_timeout() if core.may_stand else NEVER
        if state.leader_id == core.local.id:
            core.role = Resigned(state.leader_epoch, voted or core.local, state.leader_id, election_deadline=until)
            core.role.election_deadline = now_ms + core.election_timeout()
        else:
            core.role = Unattached(state.leader_epoch, voted, state.leader_id, until)
        if core.log.last_epoch > core.epoch:
            core.become_unattached(core.log.last_epoch, now_ms)
        if core.voter_set.is_only(core.local) and core.may_stand:
            self._elections.stand(now_ms)

    # ---- public state

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark

    @property
    def voter_set(self) -> VoterSet:
        return self._core.voter_set

    @property
    def voters(self) -> VoterHistory:
        return self._core.voters

    @property
    def kraft_version(self) -> int:
        return self._core.voters.kraft_version

    def kraft_upgrade_error(self, version: int) -> str | None:
        """Returns why this leader cannot raise kraft.version to that level now, or None."""
        return error_text(self._core, version)

    @property
    def is_leader(self) -> bool:
        return isinstance(self._core.role, Leader)

    # ---- state machine interface

    def handle(self, message: Input, now_ms: int) -> None:
        now_ms = self._time(now_ms)
        if isinstance(message, PeerRequest):
            self._request(message.token, message.request, now_ms)
        elif isinstance(message, PeerResponse):
            self._response(message, now_ms)
        elif isinstance(message, Synced):
            self._leading.synced(message.end_offset, now_ms)
        elif isinstance(message, Appended):
            assert self.is_leader and message.epoch == self.epoch, f"{self._core.role} appends in {message.epoch}"
            self._leading.appended(now_ms)
        elif isinstance(message, LeaderGone):
            self._following.leader_is_gone(message.node, now_ms)
        elif isinstance(message, RaiseKRaftVersion):
            self._leading.append(upgrade_records(self._core, message.version), now_ms)
        elif self.is_leader:
            self._leading.resign(now_ms)
        self._settle(now_ms)

    def deadline(self) -> int | None:
        """Returns the time of the next `expire` call; None if only input from others can change anything."""
        core, role = self._core, self._core.role
        times = [self._leading.deadline(), self._changes.deadline()]
        if isinstance(role, Unattached | Prospective | Candidate | Resigned):
            times.append(role.election_deadline)
        if isinstance(role, Prospective | Candidate):
            times += [core.send_at(voter) for voter in role.tally.unanswered]
        if isinstance(role, Resigned):
            times += [core.send_at(voter) for voter in role.unacknowledged]
        if isinstance(role, Follower):
            times.append(role.fetch_deadline)
        send_at = self._following.wants_to_send_at()
        times.append(NEVER if send_at is None else send_at)
        earliest = min(times)
        return None if earliest == NEVER else earliest - self._ahead

    def _time(self, now_ms: int) -> int:
        if now_ms + self._ahead < self._now:
            self._ahead = self._now - now_ms
        self._now = now_ms + self._ahead
        return self._now

    def expire(self, now_ms: int) -> None:
        now_ms = self._time(now_ms)
        self._elections.expire(now_ms)
        self._following.expire(now_ms)
        self._leading.expire(now_ms)
        self._settle(now_ms)

    def take(self) -> list[Effect]:
        return self._core.take()

    def _settle(self, now_ms: int) -> None:
        """Completes every step: answers fetches parked at a former leader, and sends what can be sent."""
        self._changes.expire(now_ms)
        if not self.is_leader:
            self._leading.release()
        self._elections.send(now_ms)
        self._following.send(now_ms)
        self._leading.send_begin(now_ms)
        self._leading.send_end(now_ms)

    # ---- requests from others

    def _request(self, token: object, request: Any, now_ms: int) -> None:
        core = self._core
        if is_voter_request(request):
            self._changes.handle(token, request, now_ms)
            return
        asked = wire.partition_of(request)
        if request.cluster_id not in (None, core.config.cluster_id):
            core.reply(token, wire.error_response(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        elif asked is None or not core.is_credible(wire.epoch_of(asked)):
            core.reply(token, wire.error_response(request, ErrorCode.INVALID_REQUEST))
        elif isinstance(request, VoteRequest):
            core.reply(token, self._elections.handle(request, asked, now_ms))
        elif isinstance(request, FetchRequest):
            self._leading.handle_fetch(token, request, asked, now_ms)
        elif isinstance(request, FetchSnapshotRequest):
            self._leading.handle_snapshot(token, request, asked, now_ms)
        elif isinstance(request, BeginQuorumEpochRequest):
            core.reply(token, self._begin(request, asked, now_ms))
        else:
            assert isinstance(request, EndQuorumEpochRequest), f"no request of the quorum: {request}"
            core.reply(token, self._end(asked, now_ms))

    def _begin(self, request: BeginQuorumEpochRequest, asked: BeginEpochPartitionRequest, now_ms: int) -> Message:
        core = self._core
        error = ErrorCode.NONE
        if asked.leader_epoch < core.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.leader_id < 0 or asked.leader_id == core.local.id:
            error = ErrorCode.INVALID_REQUEST
        elif request.voter_id != NO_NODE and not ReplicaKey(request.voter_id, asked.voter_directory_id).matches(
            core.local
        ):
            error = ErrorCode.INVALID_VOTER_KEY
        elif asked.leader_epoch == core.epoch and isinstance(core.role, Prospective):
            # The leader had timed out here and is back.
            core.become_follower(asked.leader_epoch, asked.leader_id, now_ms)
        else:
            core.heard_of(asked.leader_epoch, asked.leader_id, now_ms)
        return wire.begin_response(error, core.role.leader_id, core.epoch)

    def _end(self, asked: EndEpochPartitionRequest, now_ms: int) -> Message:
        core = self._core
        if asked.leader_epoch < core.epoch:
            return wire.end_response(ErrorCode.FENCED_LEADER_EPOCH, core.role.leader_id, core.epoch)
        core.heard_of(asked.leader_epoch, asked.leader_id, now_ms)
        preferred = [ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in asked.preferred_candidates]
        preferred = preferred or [ReplicaKey(id) for id in asked.preferred_successors]
        rank = next((number for number, key in enumerate(preferred) if key.matches(core.local)), None)
        self._following.leader_ends(asked.leader_id, rank, len(preferred), now_ms)
        self._following.expire(now_ms)
        return wire.end_response(ErrorCode.NONE, core.role.leader_id, core.epoch)

    # ---- responses from others

    def _response(self, message: PeerResponse, now_ms: int) -> None:
        core, node, response = self._core, message.node, message.response
        if not core.answered(node, message.correlation, now_ms, is_failure=response is None):
            return
        if response is None or isinstance(response, ApiVersionsResponse):
            self._changes.described(node, response, now_ms)
            self._leading.begin_failed(node, now_ms)
            return
        if isinstance(response, UpdateRaftVoterResponse) and not response.error_code:
            self._following.leader_knows_us(node)
            return
        leader = (
            wire.leader_response(response) if hasattr(response, "topics") or hasattr(response, "responses") else None
        )
        if leader is None:
            core.back_off(node, now_ms)
            return
        core.heard_of(leader.leader_epoch, leader.leader_id, now_ms)
        if leader.leader_epoch != core.epoch:
            return
        if isinstance(response, VoteResponse):
            self._elections.answered(node, response, now_ms)
        elif isinstance(response, FetchResponse):
            self._following.fetched(node, response, now_ms)
        elif isinstance(response, FetchSnapshotResponse):
            self._following.snapshot_fetched(node, response, now_ms)
        elif isinstance(response, EndQuorumEpochResponse):
            self._leading.end_acknowledged(node)
        elif isinstance(response, BeginQuorumEpochResponse) and leader.error_code:
            self._leading.begin_failed(node, now_ms)
