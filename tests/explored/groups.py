"""A classic, a KIP-848 or a share group with two members, and a coordinator that moves.

The coordinator is the product's `GroupShard`, loaded from its log after each move. Requests and responses are lost, doubled
and reordered. A coordinator dies after it has handled a request: its records are committed or lost, its response is lost.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups.share.persister_requests import Followed, StatesInitialized
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.assignments import TopicPartitions
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from tests.coordinator.group_logs import LogRecord, load
from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import KINDS, encode_record
from tests.explored.explorer import Choice, frozen

MEMBERS = ("m0", "m1")
SESSION_MS = 10_000
CONFIG = GroupsConfig(
    initial_rebalance_delay_ms=0,
    consumer_session_timeout_ms=SESSION_MS,
    consumer_assignment_interval_ms=0,
    share_session_timeout_ms=SESSION_MS,
    share_assignment_interval_ms=0,
    offsets_retention_check_interval_ms=1_000_000_000,
)
IMAGE = image_of({"t": 2})
T = b"t".ljust(16, b".")
#: Objects that all states share.
_SHARED = (CONFIG, IMAGE, KINDS.by_name, KINDS.replays, *KINDS.by_name.values())
SHARED_IDS = frozenset(map(id, _SHARED))
#: Errors after which a member joins anew.
_GONE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}


class Budget(NamedTuple):
    """How often each thing happens in one run. `beats`: requests of all members."""

    beats: int = 6
    moves: int = 1
    lost: int = 0
    doubled: int = 0
    leaves: int = 0
    #: Timers that fire.
    timers: int = 0


class Request(NamedTuple):
    member: str
    number: int
    body: tuple[Any, ...]


class Response(NamedTuple):
    member: str
    number: int
    body: Any


class Member:
    """A client. `owned`: the partitions that it works on."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()
        self.wanted: frozenset[int] = frozenset()
        self.number = 0
        self.is_waiting = False
        self.heard_at = 0
        self.reset()

    def reset(self) -> None:
        self.epoch, self.owned, self.wanted = 0, frozenset(), frozenset()
        #: Classic members: the id that the coordinator gave, the members of a leader, and whether to send SyncGroup.
        self.member_id, self.joined, self.must_sync = "", (), False


class GroupWorld:
    """The common part of all kinds of groups. A subclass sends requests and reads responses."""

    SURVIVES: tuple[str, ...] = ()

    def __init__(self, budget: Budget) -> None:
        self.budget, self.now = budget, 1_000_000
        self.log: list[LogRecord] = []
        self.handled = 0
        self.shard = self.loaded()
        self.members = {name: Member() for name in MEMBERS}
        self.requests: list[Request] = []
        self.responses: list[Response] = []

    def loaded(self) -> GroupShard:
        return load(CONFIG, self.log, self.now, IMAGE)

    def copy(self) -> GroupWorld:
        world = object.__new__(type(self))
        memo = {id(one): one for one in _SHARED}
        for name, value in vars(self).items():
            copied = list(value) if name in ("log", "requests", "responses") else copy.deepcopy(value, memo)
            setattr(world, name, copied)
        return world

    def canonical(self) -> Hashable:
        return (
            self.budget,
            self.now,
            frozen(self.shard.state.groups, SHARED_IDS),
            self.shard.deadline(),
            frozen(self.members),
            tuple(sorted(self.requests, key=repr)),
            tuple(sorted(map(repr, self.responses))),
            self.more(),
        )

    def more(self) -> Hashable:
        """Returns the rest of the state, of a kind."""
        return ()

    # ---- choices

    def choices(self) -> Iterable[Choice]:
        budget = self.budget
        for name, member in self.members.items():
            if not member.is_waiting and budget.beats:
                yield "send", name
            if budget.leaves and member.epoch > 0 and not member.is_waiting:
                yield "leave", name
        for request in dict.fromkeys(self.requests):
            yield "deliver", request
            if budget.moves:
                yield "deliver-and-die", request, True
                yield "deliver-and-die", request, False
            if budget.lost:
                yield "lose", request
            if budget.doubled:
                yield "double", request
        for index in range(len(self.responses)):
            yield "receive", index
            if budget.lost:
                yield "lose-response", index
        if budget.timers and self.shard.deadline() is not None:
            yield ("expire",)

    def apply(self, choice: Choice) -> None:
        kind, *subjects = choice
        getattr(self, "_" + kind.replace("-", "_"))(*subjects)
        self.check()

    def _spend(self, name: str) -> None:
        self.budget = self.budget._replace(**{name: getattr(self.budget, name) - 1})

    def _send(self, name: str) -> None:
        self._spend("beats")
        member = self.members[name]
        member.number += 1
        member.is_waiting = True
        self.requests.append(Request(name, member.number, self.asks(name, member)))

    def _lose(self, request: Request) -> None:
        self._spend("lost")
        self.requests.remove(request)
        self._times_out(request.member, request.number)

    def _lose_response(self, index: int) -> None:
        self._spend("lost")
        response = self.responses.pop(index)
        self._times_out(response.member, response.number)

    def _times_out(self, name: str, number: int) -> None:
        member = self.members[name]
        if member.number == number:
            member.is_waiting = False

    def _double(self, request: Request) -> None:
        self._spend("doubled")
        self.requests.append(request)

    def _handle(self, request: Request) -> tuple[list[Any], list[Any]]:
        token = (request.member, request.number)
        message, version = self.message(request)
        self.handled += 1
        uuid = f"{self.handled:032x}"  # never drawn twice, for a doubled request either
        self.shard.handle(GroupRequest(token, message, version, "c", "/h", uuid), self.now)
        self.shard.expire(self.now)  # timers without a delay
        self.requests.remove(request)
        output = self.shard.take()
        return output.records, output.replies

    def _deliver(self, request: Request) -> None:
        self._commit(*self._handle(request))

    def _commit(self, records: list[Any], replies: list[Any]) -> None:
        self.log += [encode_record(record) for record in records]
        for reply in replies:
            self.replied(reply)

    def replied(self, reply: Any) -> None:
        name, number = reply.token
        self.responses.append(Response(name, number, reply.response))

    def _deliver_and_die(self, request: Request, is_committed: bool) -> None:
        """The coordinator dies after its decision: the records are committed or not, and the response is lost."""
        self._spend("moves")
        records, _ = self._handle(request)
        before = self.shard
        if is_committed:
            self.log += [encode_record(record) for record in records]
        self.shard = self.loaded()
        if is_committed:
            self._check_survivors(before)
        in_flight = {(one.member, one.number) for one in (*self.requests, *self.responses)}  # type: ignore[attr-defined]
        for name, member in self.members.items():
            if (name, member.number) not in in_flight:
                member.is_waiting = False

    def _check_survivors(self, before: GroupShard) -> None:
        for group_id, group in before.state.groups.items():
            after = self.shard.state.groups.get(group_id)
            for attribute in self.SURVIVES:
                had, has = (frozen(getattr(one, attribute, None), SHARED_IDS) for one in (group, after))
                assert had == has, f"the next coordinator has another {attribute}: {has} in place of {had}"

    def _receive(self, index: int) -> None:
        response = self.responses.pop(index)
        member = self.members[response.member]
        if member.is_waiting and member.number == response.number:
            member.is_waiting, member.heard_at = False, self.now
            self.reads(response.member, member, response.body)

    def _expire(self) -> None:
        """The next timer of the coordinator fires. Members stop by their own clocks before their sessions end."""
        self._spend("timers")
        deadline = self.shard.deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        for member in self.members.values():
            if member.epoch > 0 and self.now - member.heard_at >= SESSION_MS:
                member.reset()
        self.shard.expire(self.now)
        output = self.shard.take()
        self._commit(output.records, output.replies)

    def _leave(self, name: str) -> None:
        self._spend("leaves")
        member = self.members[name]
        member.number += 1
        body = self.leaves(name, member)
        member.reset()
        self.requests.append(Request(name, member.number, body))

    # ---- of the kinds

    def asks(self, name: str, member: Member) -> tuple[Any, ...]:
        raise NotImplementedError

    def leaves(self, name: str, member: Member) -> tuple[Any, ...]:
        raise NotImplementedError

    def message(self, request: Request) -> tuple[Any, int]:
        raise NotImplementedError

    def reads(self, name: str, member: Member, response: Any) -> None:
        raise NotImplementedError

    def check(self) -> None:
        """Checks the invariants. Raises AssertionError."""


class ConsumerWorld(GroupWorld):
    """KIP-848. A member gives up partitions before it reports that, and owns those that it is assigned."""

    SURVIVES = ("epoch", "target_epoch", "members", "targets", "metadata_hash", "holders")

    def asks(self, name: str, member: Member) -> tuple[Any, ...]:
        member.owned &= member.wanted
        return (member.epoch, tuple(sorted(member.owned)))

    def leaves(self, name: str, member: Member) -> tuple[Any, ...]:
        return (-1, ())

    def message(self, request: Request) -> tuple[Any, int]:
        epoch, owned = request.body
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=request.member,
            member_epoch=epoch,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=["t"],
            topic_partitions=[TopicPartitions(topic_id=T, partitions=list(owned))] if owned else [],
        ), 1

    def reads(self, name: str, member: Member, response: Any) -> None:
        if response.error_code in _GONE:
            member.reset()
            return
        assert response.error_code == 0, response
        assert response.member_epoch >= member.epoch, f"the epoch of {name} decreased"
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.wanted = frozenset(i for topic in response.assignment.topic_partitions for i in topic.partitions)
            member.owned |= member.wanted

    def check(self) -> None:
        one, other = (member.owned for member in self.members.values())
        assert not one & other, f"partitions {sorted(one & other)} have two owners"


class ShareWorld(GroupWorld):
    """KIP-932: members share partitions that the persister has initialized."""

    SURVIVES = ("epoch", "target_epoch", "members", "targets", "metadata_hash")

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self.unknown: list[tuple[int, ...]] = []
        self.initialized: set[int] = set()

    def more(self) -> Hashable:
        return (tuple(sorted(self.unknown)), frozenset(self.initialized))

    def choices(self) -> Iterable[Choice]:
        yield from super().choices()
        for partitions in dict.fromkeys(self.unknown):
            yield "initialize", partitions, True
            yield "initialize", partitions, False

    def replied(self, reply: Any) -> None:
        if isinstance(reply.response, Followed):
            request = reply.response.request
            if request is not None and hasattr(request.topics[0].partitions[0], "start_offset"):
                self.unknown.append(tuple(sorted(p.partition for topic in request.topics for p in topic.partitions)))
            reply = reply._replace(response=reply.response.response)
        super().replied(reply)

    def _initialize(self, partitions: tuple[int, ...], is_written: bool) -> None:
        self.unknown.remove(partitions)
        if is_written:
            self.initialized |= set(partitions)
        known = StatesInitialized("g", {T: frozenset(partitions)}, has_failed=not is_written)
        self.shard.handle(GroupRequest(("persister", 0), known), self.now)
        output = self.shard.take()
        self.log += [encode_record(record) for record in output.records]

    def asks(self, name: str, member: Member) -> tuple[Any, ...]:
        return (member.epoch,)

    def leaves(self, name: str, member: Member) -> tuple[Any, ...]:
        return (-1,)

    def message(self, request: Request) -> tuple[Any, int]:
        return ShareGroupHeartbeatRequest(
            group_id="g", member_id=request.member, member_epoch=request.body[0], subscribed_topic_names=["t"]
        ), 1

    def reads(self, name: str, member: Member, response: Any) -> None:
        if response.error_code in _GONE:
            member.reset()
            return
        assert response.error_code == 0, response
        assert response.member_epoch >= member.epoch, f"the epoch of {name} decreased"
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.owned = frozenset(i for topic in response.assignment.topic_partitions for i in topic.partitions)

    def check(self) -> None:
        for name, member in self.members.items():
            strange = member.owned - self.initialized
            assert not strange, f"{name} has partitions {sorted(strange)} that the persister has not initialized"


class ClassicWorld(GroupWorld):
    """JoinGroup, SyncGroup by the leader, and the generation in which a partition has one owner."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        #: (generation, partition) -> the member that was assigned it.
        self.owners: dict[tuple[int, int], str] = {}

    def more(self) -> Hashable:
        return tuple(sorted(self.owners.items()))

    def asks(self, name: str, member: Member) -> tuple[Any, ...]:
        if not member.must_sync:
            return ("join", member.member_id)
        parts = tuple((one, tuple(range(2)[index :: len(member.joined)])) for index, one in enumerate(member.joined))
        return ("sync", member.member_id, member.epoch, parts)

    def leaves(self, name: str, member: Member) -> tuple[Any, ...]:
        return ("leave", member.member_id)

    def message(self, request: Request) -> tuple[Any, int]:
        kind, member_id, *rest = request.body
        if kind == "leave":
            return LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]), 5
        if kind == "join":
            return JoinGroupRequest(
                group_id="g",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=member_id,
                protocol_type="x",
                protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")],
            ), 4
        generation, parts = rest
        assignments = [SyncGroupRequestAssignment(member_id=one, assignment=bytes(owned)) for one, owned in parts]
        request_ = SyncGroupRequest(
            group_id="g", generation_id=generation, member_id=member_id, assignments=assignments
        )
        return request_, 3

    def reads(self, name: str, member: Member, response: Any) -> None:
        error = response.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = response.member_id
        elif error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            member.must_sync = False
        elif error in _GONE:
            member.reset()
        elif member.must_sync:
            assert error == 0, response
            member.must_sync, member.owned = False, frozenset(response.assignment)
            for partition in member.owned:
                owner = self.owners.setdefault((member.epoch, partition), member.member_id)
                assert owner == member.member_id, f"partition {partition} has two owners in generation {member.epoch}"
        else:
            assert error == 0, response
            member.member_id, member.epoch, member.must_sync = response.member_id, response.generation_id, True
            member.owned = frozenset()
            member.joined = tuple(sorted(one.member_id for one in response.members))
