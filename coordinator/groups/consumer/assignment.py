"""Assignment in consumer groups: the assignors, the target of a group, and the reconciliation of each member with it.

- `uniform` and `range_`: the server-side assignors. `complete` is the part of `uniform` for heterogeneous
  subscriptions.
- `update_epoch`, `update_target`: the epoch of the group and its target assignment.
- `reconcile`, `reconcile_member`: move one member from its assignment to its target, so that no partition ever has
  two owners.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ..assigned_group import TargetNeed, target_need, topics_by_name
from ..state import Session
from .group import (
    ConsumerGroup,
    Member,
    MemberState,
    Partitions,
    assignment_interval_ms,
    delete_partition_metadata,
    metadata_hash,
    remove_member,
    session_timeout_ms,
    unused_regexes,
    write_current,
    write_epoch,
    write_regex,
    write_target_epoch,
    write_targets,
)

if TYPE_CHECKING:
    from ..state import ShardState


# ---- `uniform` for heterogeneous subscriptions
#
# The moves are those of Kafka's UniformHeterogeneousAssignmentBuilder.
#
# Members keep their partitions. Unassigned partitions go, topic by topic, to the subscribers with the fewest
# partitions over all topics. Then, in rounds over all topics, the members with the most partitions give to those with
# the fewest. Topics with many partitions per subscriber come first.

#: Rounds over all topics. Each roughly halves the imbalance; for most subscriptions the second round moves nothing.
MAX_ROUNDS = 16

#: Topic -> the owner of each partition; None if unassigned.
Owners = dict[bytes, list[str | None]]
Load = dict[str, int]


def complete(owners: Owners, load: Load, subscribers: Mapping[bytes, Sequence[str]]) -> None:
    """Gives every partition an owner. `load`: partitions per member. `subscribers`: topic -> sorted subscribers."""
    topics = sorted(owners, key=lambda topic_id: _rank(topic_id, len(owners[topic_id]), len(subscribers[topic_id])))
    for topic_id in topics:
        free = [index for index, owner in enumerate(owners[topic_id]) if owner is None]
        if free:
            levels = _Levels(subscribers[topic_id], load)
            for index in free:
                owners[topic_id][index] = taker = levels.lowest()
                load[taker] += 1
    _even_out([topic_id for topic_id in topics if len(subscribers[topic_id]) > 1], owners, load, subscribers)


def _rank(topic_id: bytes, partitions: int, subscribers: int) -> tuple[float, int, tuple[int, ...]]:
    """Returns the sort key of a topic. Java compares the halves of ids as signed numbers."""
    return (-partitions / subscribers, subscribers, struct.unpack(">qq", topic_id))


def _even_out(topics: Sequence[bytes], owners: Owners, load: Load, subscribers: Mapping[bytes, Sequence[str]]) -> None:
    last_moved: bytes | None = None
    for _ in range(MAX_ROUNDS):
        for topic_id in topics:
            if topic_id == last_moved:
                return  # all other topics were checked since then, and nothing moved
            if _move(owners[topic_id], load, subscribers[topic_id]) or last_moved is None:
                last_moved = topic_id


def _move(owners: list[str | None], load: Load, subscribers: Sequence[str]) -> bool:
    """Moves partitions of one topic from the members with the most to those with the fewest. Returns if any moved."""
    levels = _Levels(subscribers, load)
    if levels.difference <= 1:
        return False
    to_give: dict[str, list[int]] = {}
    for index, owner in enumerate(owners):
        if owner is not None:
            to_give.setdefault(owner, []).append(index)
    moved = False
    while not levels.is_even:
        giver = levels.highest()
        while giver is not None and not to_give.get(giver):
            levels.exclude_last()
            giver = levels.highest()
        if giver is None:
            break
        index, taker = to_give[giver].pop(), levels.lowest()
        if levels.is_even:
            break
        owners[index] = taker
        load[giver] -= 1
        load[taker] += 1
        moved = True
    return moved


class _Levels:
    """Members sorted by load, with a lowest and a highest range.

    Members of the lowest range take partitions in turn until the whole range is a level higher. Those of the highest
    range give partitions in turn until it is a level lower. Each range includes the members whose level it reaches. The
    caller updates `load` according to the results.
    """

    def __init__(self, members: Sequence[str], load: Load) -> None:
        self._load = load
        self._members = sorted(members, key=load.__getitem__)
        low, high = load[self._members[0]], load[self._members[-1]]
        self.difference = high - low
        self._low_level, self._low_end, self._next_low = low - 1, 0, 0
        end = len(members)
        self._high_level, self._high_start, self._high_end, self._next_high = high + 1, end, end, end - 1

    @property
    def is_even(self) -> bool:
        return self._high_level - self._low_level <= 1

    def lowest(self) -> str:
        members, load = self._members, self._load
        if self._next_low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(members) and load[members[self._low_end]] == self._low_level:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return members[self._next_low - 1]

    def highest(self) -> str | None:
        """Returns the next member to give a partition; None if all are excluded."""
        members, load = self._members, self._load
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = load[members[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and load[members[self._high_start - 1]] == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return members[self._next_high + 1]

    def exclude_last(self) -> None:
        """Excludes the member that `highest` returned last, since it has no partition of the topic.

        The last member of the range takes its place.
        """
        members, place = self._members, self._next_high + 1
        self._high_end -= 1
        members[place], members[self._high_end] = members[self._high_end], members[place]


# ---- assignors
#
# The server-side assignors of consumer groups: `uniform` and `range`, as in the coordinator of Kafka 4.4.
#
# Both take the members' topics and current target assignments, and assign every partition of every subscribed topic
# to one member that subscribes to it. Neither considers racks, like Kafka's since 4.0: racks only count towards the
# hash of the topics, so that a change of racks triggers a new assignment.


Assignment = dict[str, dict[bytes, frozenset[int]]]


class Subscriber(NamedTuple):
    instance_id: str | None
    topic_ids: frozenset[bytes]
    #: The current target assignment.
    current: Partitions


def uniform(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    """Assigns loads that differ by at most one if subscriptions permit. Members keep their partitions if possible."""
    if len({frozenset(s.topic_ids & counts.keys()) for s in members.values()}) <= 1:
        return _uniform_alike(members, counts)
    subscribers = _subscribers(members, counts)
    owners: Owners = {topic_id: [None] * counts[topic_id] for topic_id in subscribers}
    load = dict.fromkeys(members, 0)
    for member_id in sorted(members):
        member = members[member_id]
        for topic_id, index in _places(member.current):
            if topic_id in member.topic_ids and index < counts.get(topic_id, 0) and owners[topic_id][index] is None:
                owners[topic_id][index] = member_id
                load[member_id] += 1
    complete(owners, load, subscribers)
    return _gathered(members, {(t, i): m for t, of_topic in owners.items() for i, m in enumerate(of_topic) if m})


def _uniform_alike(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    """Assigns for equal subscriptions: each member keeps its partitions up to its quota.

    Free partitions fill up the members in order, as in Kafka.
    """
    subscribed = set[bytes]().union(*(s.topic_ids & counts.keys() for s in members.values()))
    kept: dict[str, list[tuple[bytes, int]]] = {}
    taken: set[tuple[bytes, int]] = set()
    share, extras = divmod(sum(counts[t] for t in subscribed), len(members)) if members else (0, 0)
    room: dict[str, int] = {}
    left = len(members)
    free_again: list[tuple[bytes, int]] = []
    for member_id in sorted(members):
        quota = share + (1 if extras else 0)
        mine = [p for p in _places(members[member_id].current) if p[0] in subscribed and p[1] < counts[p[0]]]
        mine = [place for place in mine if place not in taken]
        taken.update(mine)
        kept[member_id], lost = mine[:quota], mine[quota:]
        free_again += lost
        room[member_id] = quota - len(kept[member_id])
        if extras:
            # A member that would need a new partition as its extra leaves it to later members that may own one already.
            if room[member_id] and left > extras:
                room[member_id] -= 1
            else:
                extras -= 1
        left -= 1
    every = [(topic_id, index) for topic_id in sorted(subscribed) for index in range(counts[topic_id])]
    free = iter([place for place in every if place not in taken] + free_again)
    for member_id, count in room.items():
        kept[member_id] += [place for _, place in zip(range(count), free)]
    return _gathered(members, {place: member_id for member_id, places in kept.items() for place in places})


def _places(partitions: Partitions) -> list[tuple[bytes, int]]:
    return [(topic_id, index) for topic_id in sorted(partitions) for index in sorted(partitions[topic_id])]


def range_(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    """Assigns each subscriber a contiguous range of each topic, static members first.

    So topics with the same number of partitions are assigned alike.
    """
    order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    assignment: Assignment = {member_id: {} for member_id in members}
    for topic_id in sorted(counts):
        subscribers = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        if not subscribers:
            continue
        quota, extra = divmod(counts[topic_id], len(subscribers))
        start = 0
        for i, member_id in enumerate(subscribers):
            end = start + quota + (1 if i < extra else 0)
            if end > start:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignment


ASSIGNORS: dict[str, Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Assignment]] = {
    "uniform": uniform,
    "range": range_,
}


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id if member.instance_id is not None else member_id)


def _subscribers(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for member_id in sorted(members):
        for topic_id in members[member_id].topic_ids & counts.keys():
            found.setdefault(topic_id, []).append(member_id)
    return found


def _gathered(members: Mapping[str, Subscriber], owner: Mapping[tuple[bytes, int], str]) -> Assignment:
    gathered: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    for (topic_id, index), member_id in owner.items():
        gathered[member_id].setdefault(topic_id, set()).add(index)
    return {m: {t: frozenset(p) for t, p in topics.items()} for m, topics in gathered.items()}


# ---- epochs and targets
#
# Group epochs and target assignments of consumer groups.


def update_epoch(state: ShardState, group: ConsumerGroup, is_changed: bool) -> None:
    """Increments the group epoch if subscriptions or subscribed topics changed."""
    if not is_changed and not group.is_outdated:
        return
    digest = metadata_hash(state.image, group.subscribed_topics())
    group.is_outdated = False
    if is_changed or digest != group.metadata_hash:
        write_epoch(state, group.group_id, group.epoch + 1, digest)
        state.counters.consumer_rebalances += 1
    if group.has_partition_metadata:
        delete_partition_metadata(state, group.group_id)


def update_target(state: ShardState, group: ConsumerGroup, now: int) -> None:
    """Computes the target for the group's epoch, unless the last one is younger than the assignment interval.

    A later heartbeat computes a deferred target.
    """
    if target_need(group, assignment_interval_ms(state, group.group_id), now) is not TargetNeed.NOW:
        return
    topics = topics_by_name(state.image, group.subscribed_topics())
    subscribers = {
        member_id: Subscriber(
            member.instance_id,
            frozenset(topics[name].id for name in group.topics_of(member.metadata) if name in topics),
            group.targets.get(member_id, {}),
        )
        for member_id, member in group.members.items()
    }
    assign = ASSIGNORS[group.assignor(state.config.consumer_assignors)]
    targets = assign(subscribers, {topic.id: len(topic.partitions) for topic in topics.values()})
    write_targets(state, group, targets, group.epoch, now)


def remove_from_group(state: ShardState, group: ConsumerGroup, member_ids: Iterable[str]) -> None:
    """Removes members that left or were fenced.

    Their partitions are free at once, and the next heartbeat computes a new target assignment.
    """
    for member_id in member_ids:
        remove_member(state, group.group_id, member_id)
    for regex in unused_regexes(group):
        write_regex(state, group.group_id, regex, None)
    digest = metadata_hash(state.image, group.subscribed_topics())
    write_epoch(state, group.group_id, group.epoch + 1, digest)
    if not group.members:
        # The next member does not wait for the assignment interval.
        write_target_epoch(state, group.group_id, group.epoch, 0)


def sessions(state: ShardState, group: ConsumerGroup) -> Iterator[Session]:
    """Yields the sessions of all members. Those of the classic protocol chose the length of theirs."""
    length_ms = session_timeout_ms(state, group.group_id)
    for member_id, member in group.members.items():
        classic = member.metadata.classic_member_metadata
        yield Session(member_id, group.session(member_id), classic.session_timeout_ms if classic else length_ms)


def restore(state: ShardState, group: ConsumerGroup, now: int) -> None:
    """Starts a whole session for every member after a load, and a whole revocation timeout where one is pending."""
    group.is_outdated = True
    for member_id, member in group.members.items():
        classic = member.metadata.classic_member_metadata
        if classic is not None:
            # The revocation timeout of a classic member begins when it gets REBALANCE_IN_PROGRESS.
            state.timers.set(group.session(member_id), now + classic.session_timeout_ms)
            continue
        state.timers.set(group.session(member_id), now + session_timeout_ms(state, group.group_id))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            state.timers.set(group.revocation(member_id), now + member.metadata.rebalance_timeout_ms)


# ---- reconciliation
#
# state                   meaning                                             effect of the next heartbeat
# STABLE                  the member has its part of the target at its epoch  a newer target: `_advance`; a changed
#                                                                             subscription: `_without_unsubscribed`
# UNREVOKED_PARTITIONS    the member must revoke `revoking`; its epoch stays  still owned or omitted: as above without
#                                                                             a newer target; else `_advance`
# UNRELEASED_PARTITIONS   the member is at the target's epoch, but others     `_advance`
#                         still hold some of its partitions
# UNKNOWN                 a later version wrote the state                     the member owns nothing: `_advance`;
#                                                                             else it is fenced
#
# `_advance`, with the assignment (A) and the target (T):
#     A - T is not empty and owned    UNREVOKED_PARTITIONS: A becomes A & T, the rest must be revoked; same epoch
#     T - A has parts others hold     UNRELEASED_PARTITIONS at the target's epoch, with all of T that is free
#     otherwise                       STABLE at the target's epoch, with T
#
# A member holds a partition if it is in the member's assignment or in `revoking`. Only free partitions are assigned.
# Once a member is fenced or has left, its partitions are free.


@dataclass(frozen=True, slots=True)
class Target:
    """The target of one member."""

    epoch: int
    partitions: Partitions
    #: Topics that the member subscribes to now. The target may still contain others.
    subscribed: Set[bytes]

    def of(self, topic_id: bytes) -> frozenset[int]:
        return self.partitions.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()


def reconcile(
    member: Member,
    target: Target,
    is_held: Callable[[bytes, int], bool],
    owned: Partitions | None,
    subscription_changed: bool = False,
) -> Member | None:
    """Returns the member's new state (the same object if nothing changes); None if the member must be fenced.

    `owned`: the partitions that the member reports; None if the request omits them, which means: unchanged.
    """
    if member.state is MemberState.STABLE:
        if member.epoch != target.epoch:
            return _advance(member, target, is_held, owned)
        return _without_unsubscribed(member, target, owned) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and (owned is None or _overlap(member.revoking, owned)):
        return _without_unsubscribed(member, target, owned) if subscription_changed else member
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        return None
    return _advance(member, target, is_held, owned)


def _without_unsubscribed(member: Member, target: Target, owned: Partitions | None) -> Member:
    """Revokes topics that the member no longer subscribes to, at once. Ignores the target."""
    lost = {t: epochs for t, epochs in member.assigned.items() if t not in target.subscribed}
    if not lost:
        return member
    kept = {t: epochs for t, epochs in member.assigned.items() if t in target.subscribed}
    revoking = {t: dict(epochs) for t, epochs in member.revoking.items()}
    for topic_id, epochs in lost.items():
        revoking.setdefault(topic_id, {}).update(epochs)
    after = replace(member, previous_epoch=member.epoch, assigned=kept)
    if owned is None or _overlap(revoking, owned):
        after = replace(after, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return after


def _advance(member: Member, target: Target, is_held: Callable[[bytes, int], bool], owned: Partitions | None) -> Member:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = target.of(topic_id)
        for index, epoch in epochs.items():
            (kept if index in wanted else revoking).setdefault(topic_id, {})[index] = epoch
    if revoking and (owned is None or _overlap(revoking, owned)):
        unrevoked = replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
        return _changed(replace(unrevoked, previous_epoch=member.epoch), member)
    is_waiting = False
    for topic_id in target.partitions:
        mine = kept.get(topic_id, {})
        for index in sorted(target.of(topic_id) - mine.keys()):
            if is_held(topic_id, index) and index not in member.revoking.get(topic_id, {}):
                is_waiting = True
            else:
                mine = kept.setdefault(topic_id, {})
                mine[index] = target.epoch
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    advanced = replace(member, state=state, assigned=kept, revoking={}, epoch=target.epoch)
    return _changed(replace(advanced, previous_epoch=member.epoch), member)


def _changed(after: Member, before: Member) -> Member:
    return before if after == before else after


def _overlap(held: Mapping[bytes, Mapping[int, int]], owned: Partitions) -> bool:
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in held.items())


# ---- one step, decided and written
#
# One reconciliation step of a member: `reconcile` decides it, `reconcile_member` writes it.


def reconcile_member(
    state: ShardState,
    group: ConsumerGroup,
    member: Member,
    owned: Partitions | None,
    subscription_changed: bool,
    now: int,
) -> Member | None:
    """Returns the member after the step; None if it must be fenced."""
    subscribed = {t.id for name in group.topics_of(member.metadata) if (t := state.image.topic(name)) is not None}
    target = Target(group.target_epoch, group.targets.get(member.member_id, {}), subscribed)
    after = reconcile(member, target, group.is_held, owned, subscription_changed)
    if after is None or after is member:
        return after
    write_current(state, group.group_id, after)
    if member.is_classic:
        return after  # the join timer bounds the revocation of a classic member
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        state.timers.set(group.revocation(after.member_id), now + after.metadata.rebalance_timeout_ms)
    else:
        group.revocation(after.member_id).cancel()
    return after
