"""How one member gets from what it has to what it is to have, so that no partition ever has two owners.

state                   what it means                                        what the next heartbeat does
STABLE                  it has its part of the target at its epoch           a newer target: `_advance`; else nothing
UNREVOKED_PARTITIONS    it must give back `revoking`; its epoch stays        owned or unsaid: nothing; else `_advance`
UNRELEASED_PARTITIONS   it is at the target's epoch, but others still        `_advance`
                        hold some of its partitions
UNKNOWN                 a later version wrote it                             it says what it owns, without any of
                                                                             `revoking`: `_advance`; else it is fenced

`_advance`, of what is assigned (A) and the target (T):
    A - T is not empty and owned    UNREVOKED_PARTITIONS: A becomes A & T, the rest is to be given back; same epoch
    T - A has parts others hold     UNRELEASED_PARTITIONS at the target's epoch, with all of T that is free
    otherwise                       STABLE at the target's epoch, with T
A partition is held by whoever has it as assigned or in `revoking`; only a free one is given out. Once a member is fenced
or has left, what it held is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .member import Member, MemberState, Owned, Partitions


@dataclass(frozen=True, slots=True)
class Target:
    """What the group wants of a member. Topics that the member does not subscribe to any more are not in it."""

    epoch: int
    partitions: Partitions


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
        if member.epoch != target.epoch or subscription_changed:
            return _advance(member, target, is_held, owned)
        return member
    owns_revoked = owned is None or _overlap(member.revoking, owned)
    if member.state is MemberState.UNREVOKED_PARTITIONS and owns_revoked:
        return member
    if member.state is MemberState.UNKNOWN and owns_revoked:
        return None
    return _advance(member, target, is_held, owned)


def _advance(member: Member, target: Target, is_held: Callable[[bytes, int], bool], owned: Partitions | None) -> Member:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = target.partitions.get(topic_id, frozenset())
        for index, epoch in epochs.items():
            (kept if index in wanted else revoking).setdefault(topic_id, {})[index] = epoch
    if revoking and (owned is None or _overlap(revoking, owned)):
        return _changed(
            replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking), member
        )
    is_waiting = False
    for topic_id, indexes in target.partitions.items():
        mine = kept.get(topic_id, {})
        for index in sorted(indexes - mine.keys()):
            if is_held(topic_id, index) and index not in revoking.get(topic_id, {}):
                is_waiting = True
            else:
                mine = kept.setdefault(topic_id, {})
                mine[index] = target.epoch
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    advanced = replace(member, state=state, assigned=kept, revoking={})
    if member.epoch != target.epoch:
        advanced = replace(advanced, epoch=target.epoch, previous_epoch=member.epoch)
    return _changed(advanced, member)


def _changed(after: Member, before: Member) -> Member:
    return before if after == before else after


def _overlap(held: Mapping[bytes, Mapping[int, int]], owned: Partitions) -> bool:
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in held.items())


def has_same_partitions(a: Owned, b: Owned) -> bool:
    return {t: set(p) for t, p in a.items() if p} == {t: set(p) for t, p in b.items() if p}
