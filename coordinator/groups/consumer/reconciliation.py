"""Reconciliation: each member moves from its current assignment to its target, one step a heartbeat (KIP-848).

state                   meaning                                             effect of the next heartbeat
STABLE                  the member has its part of the target at its epoch  a newer target: `_advance`; a changed
                                                                            subscription: `_without_unsubscribed`
UNREVOKED_PARTITIONS    the member must revoke `revoking`; its epoch stays  still owned or omitted: as above without
                                                                            a newer target; else `_advance`
UNRELEASED_PARTITIONS   the member is at the target's epoch, but others     `_advance`
                        still hold some of its partitions
UNKNOWN                 a later version wrote the state                     the member owns nothing: `_advance`;
                                                                            else it is fenced

`_advance`, with the assignment (A) and the target (T):
    A - T is not empty and owned    UNREVOKED_PARTITIONS: A becomes A & T, the rest must be revoked; same epoch
    T - A has parts others hold     UNRELEASED_PARTITIONS at the target's epoch, with all of T that is free
    otherwise                       STABLE at the target's epoch, with T

A member holds a partition if it is in the member's assignment or in `revoking`. Only free partitions are assigned.
Once a member is fenced or has left, its partitions are free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .group import ConsumerGroup
from .member import ConsumerMember, ConsumerMemberState, Partitions
from .writing import write_current

if TYPE_CHECKING:
    from ..shard_state import ShardState


@dataclass(frozen=True, slots=True)
class ConsumerTarget:
    """The target of one member."""

    epoch: int
    partitions: Partitions
    #: Topics that the member subscribes to now. The target may still contain others.
    subscribed: Set[bytes]

    def of(self, topic_id: bytes) -> frozenset[int]:
        return self.partitions.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()


def reconcile(
    member: ConsumerMember,
    target: ConsumerTarget,
    is_held: Callable[[bytes, int], bool],
    owned: Partitions | None,
    subscription_changed: bool = False,
) -> ConsumerMember | None:
    """Returns the member's new state (the same object if nothing changes); None if the member must be fenced.

    `owned`: the partitions that the member reports; None if the request omits them, which means: unchanged.
    """
    if member.state is ConsumerMemberState.STABLE:
        if member.epoch != target.epoch:
            return _advance(member, target, is_held, owned)
        return _without_unsubscribed(member, target, owned) if subscription_changed else member
    if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and (owned is None or _overlap(member.revoking, owned)):
        return _without_unsubscribed(member, target, owned) if subscription_changed else member
    if member.state is ConsumerMemberState.UNKNOWN and (owned is None or owned):
        return None
    return _advance(member, target, is_held, owned)


def _without_unsubscribed(member: ConsumerMember, target: ConsumerTarget, owned: Partitions | None) -> ConsumerMember:
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
        after = replace(after, state=ConsumerMemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return after


def _advance(
    member: ConsumerMember, target: ConsumerTarget, is_held: Callable[[bytes, int], bool], owned: Partitions | None
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = target.of(topic_id)
        for index, epoch in epochs.items():
            (kept if index in wanted else revoking).setdefault(topic_id, {})[index] = epoch
    if revoking and (owned is None or _overlap(revoking, owned)):
        unrevoked = replace(member, state=ConsumerMemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
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
    state = ConsumerMemberState.UNRELEASED_PARTITIONS if is_waiting else ConsumerMemberState.STABLE
    advanced = replace(member, state=state, assigned=kept, revoking={}, epoch=target.epoch)
    return _changed(replace(advanced, previous_epoch=member.epoch), member)


def _changed(after: ConsumerMember, before: ConsumerMember) -> ConsumerMember:
    return before if after == before else after


def _overlap(held: Mapping[bytes, Mapping[int, int]], owned: Partitions) -> bool:
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in held.items())


def reconcile_member(
    state: ShardState,
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Partitions | None,
    subscription_changed: bool,
    now_ms: int,
) -> ConsumerMember | None:
    """Returns the member after the step; None if it must be fenced."""
    subscribed = {t.id for name in group.topics_of(member.metadata) if (t := state.image.topic(name)) is not None}
    target = ConsumerTarget(group.target_epoch, group.targets.get(member.member_id, {}), subscribed)
    after = reconcile(member, target, group.is_held, owned, subscription_changed)
    if after is None or after is member:
        return after
    write_current(state, group.group_id, after)
    if member.is_classic:
        return after  # the join timer bounds the revocation of a classic member
    if after.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        state.timers.set(group.revocation(after.member_id), now_ms + after.metadata.rebalance_timeout_ms)
    else:
        group.revocation(after.member_id).cancel()
    return after
