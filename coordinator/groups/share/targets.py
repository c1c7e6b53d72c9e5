"""Group epochs and target assignments of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...timers import Event
from ..consumer.topics import metadata_hash
from ..target_epochs import TargetNeed, restart_sessions, target_need, topics_by_name
from . import writing
from .assignor import ShareSubscriber, simple
from .group import ShareGroup
from .settings import assignment_interval_ms, session_timeout_ms

if TYPE_CHECKING:
    from ..shard_state import ShardState


def update_epoch(state: ShardState, group: ShareGroup, subscription_changed: bool) -> bool:
    """Increments the group epoch if subscriptions, topics or assignable partitions changed. Returns whether it did."""
    has_changed = subscription_changed
    if group.target_epoch >= group.epoch and group.has_unassigned_states():
        has_changed = True
    if not has_changed and not group.is_outdated:
        return False
    digest = metadata_hash(state.image, group.subscribed_topics())
    group.is_outdated = False
    if not has_changed and digest == group.metadata_hash:
        return False
    writing.write_epoch(state, group.group_id, group.epoch + 1, digest)
    state.counters.share_rebalances += 1
    return True


def update_target(state: ShardState, group: ShareGroup, now_ms: int) -> None:
    """Computes the target for the group's epoch, unless the last one is younger than the assignment interval.

    A later heartbeat computes a deferred target.
    """
    if target_need(group, assignment_interval_ms(state, group.group_id), now_ms) is not TargetNeed.NOW:
        return
    topics = topics_by_name(state.image, group.subscribed_topics())
    members = {
        member_id: ShareSubscriber(
            frozenset(topics[name].id for name in member.metadata.subscribed_topic_names if name in topics),
            group.targets.get(member_id, {}),
        )
        for member_id, member in group.members.items()
    }
    initialized = group.states.initialized if group.states is not None else {}
    assignable = {
        topic.id: frozenset(i for i in initialized[topic.id].partitions if i in topic.partitions)
        for topic in topics.values()
        if topic.id in initialized
    }
    writing.write_targets(state, group, simple(members, assignable), group.epoch, now_ms)


def remove_member(state: ShardState, group: ShareGroup, member_id: str) -> None:
    """Removes a member that left or was fenced. The others get its partitions with their next heartbeats."""
    writing.remove_member(state, group.group_id, member_id)
    digest = metadata_hash(state.image, group.subscribed_topics())
    writing.write_epoch(state, group.group_id, group.epoch + 1, digest)
    if not group.members:
        # The next member does not wait for the assignment interval.
        writing.write_target_epoch(state, group.group_id, group.epoch, 0)


def expired(state: ShardState, event: Event, now_ms: int) -> None:
    group = state.find(ShareGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    remove_member(state, group, event[2])


def restore(state: ShardState, group: ShareGroup, now_ms: int) -> None:
    """Starts a whole session for every member after a load."""
    group.is_outdated = True
    restart_sessions(state, group, now_ms, session_timeout_ms)
