"""One classic group: its state, its members, and the valid transitions.

Clients control a classic group: each sends the protocols that it supports. The coordinator elects one member as the
leader, which computes the assignments, and ensures that all members have the same generation.

Empty                 no members. Remains until its offsets have expired. Also the state of a group that only
  commits.
    JoinGroup starts a rebalance; SyncGroup and Heartbeat get UNKNOWN_MEMBER_ID; commits without a generation pass.
PreparingRebalance    members must rejoin. JoinGroup waits until all have joined, or until the rebalance timeout.
    SyncGroup and Heartbeat get REBALANCE_IN_PROGRESS; commits of the ending generation pass.
CompletingRebalance   all have joined, the generation is incremented. SyncGroup waits for the leader's assignments.
    Heartbeats pass; commits get REBALANCE_IN_PROGRESS; a JoinGroup without changes gets the same response again.
Stable                members have their assignments. SyncGroup returns the current one; heartbeats and commits
  pass.
    A JoinGroup of the leader, or one with changed metadata, starts a rebalance.
Dead                  the group does not exist: it was deleted, or expired. Only DescribeGroups returns this state.

A member may leave, or its session may expire, in any state; then its group rebalances.

The durable state is in `durable`, and only replayed records set it. All the rest concerns live members: after a
load, `restore` rebuilds it from the durable state, as Kafka does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from sys import getsizeof
from typing import ClassVar

from ....protocol.errors import ErrorCode
from ....protocol.internal.consumer_offsets import GroupMetadataValue, MemberMetadata
from ....protocol.schema import Message
from ...result import Reply
from ...timers import Timer, Timers
from ..group import Group
from .member import ClassicMember
from .rebalance_errors import join_error, sync_error
from .subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics

#  From here on a group writes departures together, since each writes the whole group: at most once in 2 ms per member, which
#  is 100 KB/s at 200 bytes a member.
MANY_MEMBERS = 50
DEPARTURE_DELAY_MS_PER_MEMBER = 2
#: The memory of the generated ids whose clients have not joined with them yet: some 9,000 ids of ordinary length. Kafka has
#: no limit, since `group.max.size` counts members only. A client joins with its id at once, so that the oldest id is
#: the least likely to be used.
MAX_PENDING_JOIN_BYTES = 4 << 20
#: The memory of a pending id besides its text: its timer, and their places in the queue and the group.
PENDING_JOIN_BYTES = 400


def _pending_bytes(member_id: str) -> int:
    return getsizeof(member_id) + PENDING_JOIN_BYTES


def _elected(candidates: set[str], members: Iterable[dict[str, bytes]]) -> str:
    votes = Counter(next(name for name in protocols if name in candidates) for protocols in members)
    return max(votes, key=votes.__getitem__)


class ClassicGroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: The valid transitions. Any other transition is a bug of the broker.
TRANSITIONS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset({ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.STABLE}
    ),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
}


class ClassicGroup:
    kind: ClassVar[str] = "classic"

    def __init__(self, group_id: str, timers: Timers, replies: list[Reply]) -> None:
        self.group_id = group_id
        self.durable: GroupMetadataValue | None = None
        #: The group of another kind that this group replaces (KIP-848), until it has a generation of its own.
        self.predecessor: Group | None = None
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp_ms = -1
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        #: group.instance.id -> member id (KIP-345).
        self.static_members: dict[str, str] = {}
        #: Generated member ids whose clients have not joined with them yet (KIP-394), each with its session timer.
        self.pending_joins: dict[str, Timer] = {}
        self._pending_join_bytes = 0
        #: Members of this generation that have not sent SyncGroup yet.
        self.pending_syncs: set[str] = set()
        #: Topics of all members; None if unknown (not consumers, or malformed metadata).
        self.subscribed_topics: set[str] | None = None
        #: A member has joined during the initial delay, which extends the delay.
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.join_timer = Timer(("classic join", group_id))
        self.sync_timer = Timer(("classic sync", group_id))
        #: Set while members of a large group have gone that the log still has.
        self.departure_timer = Timer(("classic departures", group_id))
        self._timers = timers
        self._replies = replies
        self._awaiting_join_count = 0
        #: Protocol -> the number of members that support it.
        self._supporters: dict[str, int] = {}

    # Queries.

    @property
    def awaiting_join_count(self) -> int:
        return self._awaiting_join_count

    def has_all_joined(self) -> bool:
        return len(self.members) == self._awaiting_join_count and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Returns whether a member can join: the type matches, and all members support one of its protocols."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self._supporters.get(name, 0) == count for name in protocols)

    def select_protocol(self) -> str:
        """Returns the protocol with the most votes. Each member votes for its preferred one among the common ones."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        return _elected(candidates, (member.protocols for member in self.members.values()))

    def select_protocol_after(self, member_id: str, protocols: dict[str, bytes]) -> str:
        """Returns the protocol that the group selects once a member, which joins last, has these protocols."""
        members = [m.protocols for m in self.members.values() if m.member_id != member_id]
        candidates = {name for name in protocols if all(name in others for others in members)}
        return _elected(candidates, (*members, protocols))

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Validates a member's identity. An instance id belongs to its latest member only (KIP-345)."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def input_topics(self) -> set[str]:
        return self.subscribed_topics or set()

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member subscribes to `topic`. Malformed subscriptions of consumers count as such."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def as_record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """Returns the group's record for `__consumer_offsets`, with these assignments by member id."""
        name = self.protocol_name
        assert name is not None or not self.members, "members without a protocol"
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=name,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp_ms,
            members=[m.as_record(name or "", assignments[m.member_id]) for m in self.members.values()],
        )

    # Changes.

    def transition(self, state: ClassicGroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id}: {self.state.value} to {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def touch(self, member: ClassicMember, now_ms: int) -> None:
        self._timers.set(member.session, now_ms + member.session_timeout_ms)

    def add(self, member: ClassicMember, token: object | None) -> None:
        """Adds a new member, whose JoinGroup (`token`) waits from now on."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "one member for one instance id"
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_supporters(member.protocols, 1)
        self.await_join(member, token)
        self.forget_pending(member.member_id)

    def await_join(self, member: ClassicMember, token: object | None) -> None:
        """Parks a JoinGroup. An earlier pending one of the same member gets an error response."""
        if member.awaiting_join is not None:
            self.respond_to_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        if token is not None:
            member.awaiting_join = token
            self._awaiting_join_count += 1

    def await_sync(self, member: ClassicMember, token: object) -> None:
        if member.awaiting_sync is not None:
            self.respond_to_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = token

    def respond_to_join(self, member: ClassicMember, response: Message) -> bool:
        if member.awaiting_join is None:
            return False
        self._replies.append(Reply(member.awaiting_join, response))
        member.awaiting_join = None
        self._awaiting_join_count -= 1
        return True

    def respond_to_sync(self, member: ClassicMember, response: Message) -> bool:
        if member.awaiting_sync is None:
            return False
        self._replies.append(Reply(member.awaiting_sync, response))
        member.awaiting_sync = None
        return True

    def update(
        self, member: ClassicMember, protocols: dict[str, bytes], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._count_supporters(member.protocols, -1)
        self._count_supporters(protocols, 1)
        member.protocols, member.has_joined = protocols, True
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member_id: str) -> None:
        """Removes a member. Its pending requests get UNKNOWN_MEMBER_ID, so it must rejoin under another id."""
        self.forget_pending(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        member.session.cancel()
        self.respond_to_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self.respond_to_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self._count_supporters(member.protocols, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, group_instance_id: str, new_member_id: str) -> ClassicMember:
        """Replaces a static member that returned under a new id. It takes over the assignment; the old id is fenced."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members.pop(old_member_id)
        self.respond_to_join(member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self.respond_to_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        if old_member_id in self.pending_syncs:
            self.pending_syncs.remove(old_member_id)
            self.pending_syncs.add(new_member_id)
        member.session.cancel()
        member.session = Timer(("classic session", self.group_id, new_member_id))
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return member

    def add_pending(self, member_id: str, deadline_ms: int) -> None:
        """Keeps a generated id. Where too many are kept, forgets the oldest: its client gets UNKNOWN_MEMBER_ID, and asks for
        another id.
        """
        self._pending_join_bytes += _pending_bytes(member_id)
        while self._pending_join_bytes > MAX_PENDING_JOIN_BYTES and self.pending_joins:
            self.forget_pending(next(iter(self.pending_joins)))
        timer = self.pending_joins[member_id] = Timer(("classic session", self.group_id, member_id))
        self._timers.set(timer, deadline_ms)

    def forget_pending(self, member_id: str) -> bool:
        timer = self.pending_joins.pop(member_id, None)
        if timer is not None:
            timer.cancel()
            self._pending_join_bytes -= _pending_bytes(member_id)
        return timer is not None

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, else elects a member that has. Returns False without such a member.

        Also returns False if there is no leader.
        """
        if self.leader_id is None:
            return False
        leader = self.members.get(self.leader_id)
        if leader is not None and leader.awaiting_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_syncs.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self._read_subscriptions()
        self.transition(ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY, now_ms)

    def become_stable(self, protocol_type: str, generation_id: int, now_ms: int) -> None:
        """Makes the group Stable with members that it takes over from a group of another kind (KIP-848)."""
        assert self.members and self.state is ClassicGroupState.EMPTY
        self.state, self.state_timestamp_ms = ClassicGroupState.STABLE, now_ms
        self.protocol_type, self.generation_id = protocol_type, generation_id
        self.protocol_name = self.select_protocol()
        self._read_subscriptions()

    def set_timer(self, timer: Timer, deadline_ms: int) -> None:
        self._timers.set(timer, deadline_ms)

    def cancel_timers(self) -> None:
        """Cancels all timers of a deleted group."""
        for timer in (self.join_timer, self.sync_timer, self.departure_timer, *self.pending_joins.values()):
            timer.cancel()
        for member in self.members.values():
            member.session.cancel()

    def departures(self) -> GroupMetadataValue | None:
        """Returns the last record with sessions of 0 ms for the members that have gone since; None if none has."""
        if self.durable is None:
            return None
        gone = {m.member_id for m in self.durable.members if m.session_timeout and m.member_id not in self.members}
        if not gone:
            return None
        return replace(
            self.durable,
            members=[
                replace(member, session_timeout=0, rebalance_timeout=0) if member.member_id in gone else member
                for member in self.durable.members
            ],
        )

    def restore(self, now_ms: int) -> None:
        """Restores the group once, after a load. Every member in the record counts as alive, with a whole session."""
        value = self.durable
        if value is None:
            return
        self.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        self.state_timestamp_ms = value.current_state_timestamp
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.generation_id = value.generation
        self.leader_id = value.leader
        for stored in value.members:
            member = self._restored(stored, value.protocol or "")
            self.add(member, None)
            self.touch(member, now_ms)
        self._read_subscriptions()

    def _restored(self, stored: MemberMetadata, protocol_name: str) -> ClassicMember:
        return ClassicMember(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout,
            session_timeout_ms=stored.session_timeout,
            protocols={protocol_name: stored.subscription},
            session=Timer(("classic session", self.group_id, stored.member_id)),
            assignment=stored.assignment,
        )

    def _count_supporters(self, protocols: Iterable[str], by: int) -> None:
        for name in protocols:
            count = self._supporters.get(name, 0) + by
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    def _read_subscriptions(self) -> None:
        name = self.protocol_name
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (name is None and self.members):
            self.subscribed_topics = None
        else:
            self.subscribed_topics = subscribed_topics(m.protocols[name or ""] for m in self.members.values())
