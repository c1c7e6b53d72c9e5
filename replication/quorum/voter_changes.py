"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: the voter set changes by one voter at a time (KIP-853).

A leader accepts a change only after a record of its own epoch is committed, and when no earlier change is
uncommitted. Only then does any majority of the old set share a voter with any majority of the new one. The new set
is effective once appended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ...protocol.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ...protocol.records.control import ControlRecord, ControlType
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from .core import Core
from .diverged_commit import must_hold
from .kraft_version import describe
from .leading import Leading
from .roles import NEVER, Leader
from .voters import Address, ReplicaKey, Voter, VoterSet

#: The time within which a new voter must have been caught up; Kafka's constant.
CAUGHT_UP_WITHIN_MS = 3_600_000
KRAFT_VERSION_FEATURE = "kraft.version"
#: The commit timeout of a removal or an update; an AddRaftVoter request carries its own.
CHANGE_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class _Change:
    """A change in progress. `offset`: the offset of its VotersRecord, -1 until it is appended."""

    token: object
    respond: Callable[[ErrorCode], Message]
    deadline: int
    offset: int = -1
    voter: Voter | None = None
    ack_when_committed: bool = True
    asked_node: int = -1


def is_voter_request(request: Message) -> bool:
    kinds = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
    return isinstance(request, kinds)


class VoterChanges:
    def __init__(self, core: Core, leading: Leading) -> None:
        self._core = core
        self._leading = leading
        self._change: _Change | None = None

    def handle(self, token: object, request: Any, now_ms: int) -> None:
        respond: Callable[[ErrorCode], Message]
        decide: Callable[[_Change, Any, int], ErrorCode]
        if isinstance(request, AddRaftVoterRequest):
            respond, decide = _response_to(AddRaftVoterResponse), self._add
        elif isinstance(request, RemoveRaftVoterRequest):
            respond, decide = _response_to(RemoveRaftVoterResponse), self._remove
        else:
            respond, decide = self._updated, self._update
        change = _Change(token, respond, now_ms + CHANGE_TIMEOUT_MS)
        error = self._reject(request) or decide(change, request, now_ms)
        if error:
            response: Any = respond(error)
            if error is ErrorCode.INCONSISTENT_CLUSTER_ID and not isinstance(request, UpdateRaftVoterRequest):
                own = self._core.config.cluster_id
                response.error_message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{own}"'
            self._core.reply(token, response)

    def _reject(self, request: Any) -> ErrorCode:
        core, role = self._core, self._core.role
        if request.cluster_id not in (None, core.config.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if core.voters.kraft_version == 0:
            if not isinstance(request, UpdateRaftVoterRequest):
                return ErrorCode.UNSUPPORTED_VERSION
            return ErrorCode.NONE if role.has_committed else ErrorCode.REQUEST_TIMED_OUT
        is_changing = self._change is not None or core.voters.current_offset >= core.high_watermark
        return ErrorCode.REQUEST_TIMED_OUT if is_changing or not role.has_committed else ErrorCode.NONE

    def _add(self, change: _Change, request: AddRaftVoterRequest, now_ms: int) -> ErrorCode:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        addresses = tuple(Address(it.name, it.host, it.port) for it in request.listeners)
        reached_at = self._reached_at(addresses)
        if key.id < 0 or key.directory_id == ZERO_UUID or reached_at is None:
            return ErrorCode.INVALID_REQUEST
        if key.id in self._core.voter_set.voters:
            return ErrorCode.DUPLICATE_VOTER
        change.voter = Voter(key, addresses)
        change.deadline = now_ms + request.timeout_ms
        change.ack_when_committed = request.ack_when_committed
        change.asked_node = key.id
        self._change = change
        asked = ApiVersionsRequest(client_software_name="odradek", client_software_version="1")
        self._core.send(key.id, asked, now_ms, address=reached_at)
        return ErrorCode.NONE

    def described(self, node: int, response: ApiVersionsResponse | None, now_ms: int) -> None:
        """Handles the new voter's ApiVersions response with its kraft.version range. It must be caught up by then."""
        change, role = self._change, self._core.role
        if change is None or change.voter is None or change.offset >= 0 or change.asked_node != node:
            return
        if response is None or response.error_code:
            self._finish(ErrorCode.REQUEST_TIMED_OUT)
            return
        ranges = [f for f in response.supported_features if f.name == KRAFT_VERSION_FEATURE]
        low, high = (ranges[0].min_version, ranges[0].max_version) if ranges else (0, 0)
        assert isinstance(role, Leader)
        progress = role.progress.get(change.voter.key)
        if not low <= self._core.voters.kraft_version <= high:
            self._finish(ErrorCode.INVALID_REQUEST)
        elif progress is None or not 0 <= progress.last_caught_up_ms >= now_ms - CAUGHT_UP_WITHIN_MS:
            self._finish(ErrorCode.REQUEST_TIMED_OUT)
        else:
            voter = Voter(change.voter.key, change.voter.addresses, low, high)
            self._append(change, self._core.voter_set.with_voter(voter), now_ms)

    def _remove(self, change: _Change, request: RemoveRaftVoterRequest, now_ms: int) -> ErrorCode:
        key, voters = ReplicaKey(request.voter_id, request.voter_directory_id), self._core.voter_set
        found = voters.voters.get(key.id)
        if found is None or found.key != key:
            return ErrorCode.VOTER_NOT_FOUND
        if len(voters.voters) == 1:
            return ErrorCode.INVALID_REQUEST  # no voter would be left
        self._append(change, voters.without(key.id), now_ms)
        return ErrorCode.NONE

    def _update(self, change: _Change, request: UpdateRaftVoterRequest, now_ms: int) -> ErrorCode:
        core = self._core
        error = self._leading.reject(request.current_leader_epoch)
        if error:
            return error
        if core.voters.kraft_version == 0:
            return self._describe(change, request)
        feature = request.kraft_version_feature
        low, high = feature.min_supported_version, feature.max_supported_version
        addresses = tuple(Address(it.name, it.host, it.port) for it in request.listeners)
        if not low <= core.voters.kraft_version <= high or self._reached_at(addresses) is None:
            return ErrorCode.INVALID_REQUEST
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        found = core.voter_set.voters.get(key.id)
        if found is None or found.key != key:
            return ErrorCode.VOTER_NOT_FOUND
        # Without this voter there may be no majority, and it does not fetch before it gets this response.
        change.ack_when_committed = False
        self._append(change, core.voter_set.with_voter(Voter(key, addresses, low, high)), now_ms)
        return ErrorCode.NONE

    def _reached_at(self, addresses: Sequence[Address]) -> Address | None:
        """Returns the address for the listener name of this node's own address: voters use that listener."""
        core = self._core
        voter = core.voter_set.voters.get(core.local.id)
        own = core.config.addresses or (voter.addresses if voter is not None else ())
        return next((one for one in addresses if not own or one.name == own[0].name), None)

    def _describe(self, change: _Change, request: UpdateRaftVoterRequest) -> ErrorCode:
        role = self._core.role
        assert isinstance(role, Leader)
        error = describe(self._core, role, request)
        if not error:
            self._core.reply(change.token, change.respond(ErrorCode.NONE))
        return error

    def _append(self, change: _Change, voters: VoterSet, now_ms: int) -> None:
        core = self._core
        must_hold(core.voter_set.has_overlapping_majority(voters), f"{core.voter_set.ids} -> {voters.ids}")
        change.offset = core.log.end_offset
        self._change = change
        self._leading.append([ControlRecord(ControlType.KRAFT_VOTERS, voters.to_record())], now_ms)
        if not change.ack_when_committed:
            core.reply(change.token, change.respond(ErrorCode.NONE))
        # With fewer voters, existing records may already have a majority.
        self._leading.commit(now_ms)

    def _updated(self, error: ErrorCode) -> Message:
        role = self._core.role
        leader = CurrentLeader(leader_id=role.leader_id, leader_epoch=role.epoch)
        return UpdateRaftVoterResponse(error_code=int(error), current_leader=leader)

    # ---- completion

    def expire(self, now_ms: int) -> None:
        """Completes or fails the change. Called after any event that may commit it, end this leader's term, or time it
        out.
        """
        core, change, role = self._core, self._change, self._core.role
        if not isinstance(role, Leader):
            if change is not None:
                self._finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if change is not None and 0 <= change.offset < core.high_watermark:
            self._finish(ErrorCode.NONE)
        elif change is not None and change.deadline <= now_ms:
            self._finish(ErrorCode.REQUEST_TIMED_OUT)
        if not core.is_voter and role.has_committed and core.voters.current_offset < core.high_watermark:
            self._leading.resign(now_ms)  # it was removed from the voters, and that is committed

    def _finish(self, error: ErrorCode) -> None:
        change, self._change = self._change, None
        assert change is not None
        if change.ack_when_committed or change.offset < 0:
            self._core.reply(change.token, change.respond(error))

    def deadline(self) -> int:
        return self._change.deadline if self._change is not None else NEVER


def _response_to(response: Callable[..., Message]) -> Callable[[ErrorCode], Message]:
    def respond(error: ErrorCode) -> Message:
        return response(error_code=int(error), error_message=error.name if error else None)

    return respond
