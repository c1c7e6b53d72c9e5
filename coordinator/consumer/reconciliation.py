"""How one member gets from what it has to what it is to have, so that no partition ever has two owners.

state                   what it means                                        what the next heartbeat does
STABLE                  it has its part of the target at its epoch           a newer target: `_advance`; another
                                                                             subscription: `_without_unsubscribed`
UNREVOKED_PARTITIONS    it must give back `revoking`; its epoch stays        owned or unsaid: as above without a newer
                                                                             target; else `_advance`
UNRELEASED_PARTITIONS   it is at the target's epoch, but others still        `_advance`
                        hold some of its partitions
UNKNOWN                 a later version wrote it                             it says that it owns nothing: `_advance`;
                                                                             else it is fenced

`_advance`, of what is assigned (A) and the target (T):
    A - T is not empty and owned    UNREVOKED_PARTITIONS: A becomes A & T, the rest is to be given back; same epoch
    T - A has parts others hold     UNRELEASED_PARTITIONS at the target's epoch, with all of T that is free
    otherwise                       STABLE at the target's epoch, with T
A partition is held by whoever has it as assigned or in `revoking`; only a free one is given out. Once a member is fenced
or has left, what it held is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from .member import Member, MemberState, Partitions


@dataclass(frozen=True, slots=True)
class Target:
    """What the group wants of a member."""

    epoch: int
    partitions: Partitions
    #: Topics that the member subscribes to now; its target may know others still.
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
    """The member as it is from now on (itself when nothing changes); None when it must be fenced.

    `owned`: what it says that it has; None when it does not say, which is to say: as before.
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
    """What it does not subscribe to any more is taken back at once; its target is not looked at yet."""
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
