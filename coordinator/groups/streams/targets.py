"""Target assignments of streams groups and their delays, and the removal of members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..target_epochs import TargetNeed, restart_sessions, target_need
from .assignor import Candidate, sticky
from .group import StreamsGroup
from .member import StreamsMemberState
from .settings import assignment_interval_ms, num_standby_replicas, session_timeout_ms
from .tasks import NO_TASKS, Tasks
from .writing import remove_member, write_metadata, write_target_epoch, write_targets

if TYPE_CHECKING:
    from ..shard_state import ShardState

DELAYED_AT_FIRST = "Assignment delayed due to the configured initial rebalance delay."
DELAYED_BY_INTERVAL = "Assignment delayed due to the configured assignment interval."


def update_target(state: ShardState, group: StreamsGroup, now_ms: int) -> str | None:
    """Computes the target for the group's epoch. Returns the reason if the assignment is delayed.

    A later heartbeat, or the end of the initial delay, computes a delayed target.
    """
    if group.delay_timer.is_set:
        return DELAYED_AT_FIRST
    need = target_need(group, assignment_interval_ms(state, group.group_id), now_ms)
    if need is TargetNeed.NOW:
        write_targets(state, group, _assign(group), group.epoch, now_ms)
    return DELAYED_BY_INTERVAL if need is TargetNeed.DELAYED else None


def _assign(group: StreamsGroup) -> dict[str, Tasks]:
    configured = group.configured
    if configured is None or not configured.is_ready:
        return dict.fromkeys(group.members, NO_TASKS)
    candidates = {
        member_id: Candidate(
            member.process_id,
            Tasks(frozenset(member.assigned.active), member.assigned.standby, member.assigned.warmup),
            group.task_offsets.get(member_id, {}),
        )
        for member_id, member in group.members.items()
    }
    replicas = num_standby_replicas(group.assignment_configs)
    return sticky(candidates, configured.subtopologies, replicas)


def remove_from_group(state: ShardState, group: StreamsGroup, member_id: str) -> None:
    """Removes a member that left or was fenced.

    Its tasks are free at once, and the next heartbeat computes a new target assignment.
    """
    is_last = len(group.members) == 1
    metadata, configs = group.metadata, group.assignment_configs
    epoch = metadata.epoch + 1
    remove_member(state, group.group_id, member_id)
    write_metadata(state, group, epoch, metadata.metadata_hash, metadata.validated_topology_epoch, configs)
    if is_last:
        write_target_epoch(state, group.group_id, epoch, 0)


def expired(state: ShardState, event: tuple[str, ...], now_ms: int) -> None:
    """Handles an expired timer of a streams group."""
    group = state.find(StreamsGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    if event[0] == "streams delay":
        if group.members and group.configured is not None:
            update_target(state, group, now_ms)
        return
    member = group.members[event[2]]
    if event[0] == "streams session" or member.state is StreamsMemberState.UNREVOKED_TASKS:
        remove_from_group(state, group, member.member_id)


def restore(state: ShardState, group: StreamsGroup, now_ms: int) -> None:
    """Starts a whole session for every member after a load, and a whole revocation timeout where one is pending."""
    restart_sessions(state, group, now_ms, session_timeout_ms)
    for member_id, member in group.members.items():
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            state.timers.set(group.revocation(member_id), now_ms + member.metadata.rebalance_timeout_ms)
