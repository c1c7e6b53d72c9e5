"""The rebalance of a classic group to its next generation: all members join again, the leader assigns.

prepare -> (all have joined, or the rebalance timeout) -> complete_join -> (the leader's SyncGroup: sync.py) -> Stable

The first rebalance of a group that was empty waits `group.initial.rebalance.delay.ms` for more members, and as long
again while new ones come, but not longer than their rebalance timeout.
"""

from __future__ import annotations

import logging

from ....protocol.errors import ErrorCode
from ....protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ..shard_state import ShardState
from .group import ClassicGroup, ClassicGroupState
from .member import ClassicMember
from .rebalance_errors import sync_error
from .writing import write_departures, write_group

log = logging.getLogger(__name__)
#: The least time between two looks at whether static members come back; clients choose the rebalance timeout, even 0.
LEAST_RETRY_MS = 100


def rebalance(state: ShardState, group: ClassicGroup, now_ms: int, reason: str) -> None:
    """Starts a rebalance, or continues the current one, after a member joined, left or changed."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        advance(state, group, now_ms)
    else:
        prepare(state, group, now_ms, reason)


def prepare(state: ShardState, group: ClassicGroup, now_ms: int, reason: str) -> None:
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if group.respond_to_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)):
                group.touch(member, now_ms)
    group.pending_syncs.clear()
    group.sync_timer.cancel()
    is_initial = group.state is ClassicGroupState.EMPTY
    group.transition(ClassicGroupState.PREPARING_REBALANCE, now_ms)
    log.info("group %s rebalances after generation %d: %s", group.group_id, group.generation_id, reason)
    if is_initial:
        _wait_for_more(state, group, now_ms)
    elif group.has_all_joined():
        complete_join(state, group, now_ms)
    else:
        group.set_timer(group.join_timer, now_ms + group.rebalance_timeout_ms())


def advance(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """The join phase ends when all have joined; the first one of a group only by its timer."""
    if (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.previous_state is not ClassicGroupState.EMPTY
        and group.has_all_joined()
    ):
        complete_join(state, group, now_ms)


def join_timer_expired(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    if group.previous_state is ClassicGroupState.EMPTY and group.new_member_added and group.initial_remaining_ms:
        _wait_again(state, group, now_ms)
    else:
        complete_join(state, group, now_ms)


def sync_timer_expired(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Members that joined and then never asked for their assignment keep the rest from it: out they go."""
    if group.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE) or not group.pending_syncs:
        return
    silent = sorted(group.pending_syncs)
    for member_id in silent:
        group.remove(member_id)
    prepare(state, group, now_ms, f"{', '.join(silent)} sent no SyncGroup in time")
    write_departures(state, group, now_ms)


def session_expired(state: ShardState, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    member = group.members.get(member_id)
    if group.forget_pending(member_id):
        _after_removal(state, group, now_ms)
    elif member is not None and not member.keeps_its_session():
        group.remove(member_id)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            _after_removal(state, group, now_ms)
        else:
            prepare(state, group, now_ms, f"{member_id} sent no heartbeat within its session timeout")
        write_departures(state, group, now_ms)


def complete_join(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Ends the join phase. Members that have not joined are removed, except static members (KIP-345)."""
    group.join_timer.cancel()
    late = [m.member_id for m in group.members.values() if m.awaiting_join is None and m.group_instance_id is None]
    for member_id in late:
        group.remove(member_id)
    if not group.elect_joined_leader() and group.members:
        # No member rejoined, and only static members are left: wait until they rejoin or their sessions end.
        group.set_timer(group.join_timer, now_ms + max(group.rebalance_timeout_ms(), LEAST_RETRY_MS))
        return
    group.new_member_added = False
    group.next_generation(now_ms)
    log.info("group %s has generation %d of %d members", group.group_id, group.generation_id, len(group.members))
    if group.state is ClassicGroupState.EMPTY:
        write_group(state, group, {})
        return
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.respond_to_join(member, joined(group, member))
        group.touch(member, now_ms)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    group.set_timer(group.sync_timer, now_ms + group.rebalance_timeout_ms())
    write_departures(state, group, now_ms)


def joined(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """The member's place in the current generation; the leader gets all members, since it assigns to them."""
    is_leader = group.leader_id == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_for_leader(group) if is_leader else [],
    )


def members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.protocol_name is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.protocols[group.protocol_name],
        )
        for member in group.members.values()
    ]


def _after_removal(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Unlike `advance`, a removal ends the first join phase too when no member is missing, as in Kafka."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_joined():
        complete_join(state, group, now_ms)


def _wait_for_more(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    group.new_member_added = False
    group.initial_delay_ms = state.config.initial_rebalance_delay_ms
    group.initial_remaining_ms = max(group.rebalance_timeout_ms() - group.initial_delay_ms, 0)
    group.set_timer(group.join_timer, now_ms + group.initial_delay_ms)


def _wait_again(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    group.new_member_added = False
    remaining_ms = group.initial_remaining_ms
    group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
    group.initial_delay_ms = min(state.config.initial_rebalance_delay_ms, remaining_ms)
    group.set_timer(group.join_timer, now_ms + group.initial_delay_ms)
