"""One reconciliation step of a member: reconciliation.py decides it, and this module writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import writing
from .group import ConsumerGroup
from .member import Member, MemberState, Partitions
from .reconciliation import Target, reconcile

if TYPE_CHECKING:
    from ..base.state import ShardState


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
    writing.write_current(state, group.group_id, after)
    if member.is_classic:
        return after  # the join timer bounds the revocation of a classic member
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        state.timers.set(group.revocation(after.member_id), now + after.metadata.rebalance_timeout_ms)
    else:
        group.revocation(after.member_id).cancel()
    return after
