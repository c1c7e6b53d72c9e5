"""Group epochs and target assignments of consumer groups, and the removal of members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..session import Session
from ..target_epochs import TargetNeed, target_need, topics_by_name
from .assignors import ASSIGNORS, Subscriber
from .group import ConsumerGroup
from .member import ConsumerMemberState
from .regexes import unused_regexes
from .settings import assignment_interval_ms, session_timeout_ms
from .topics import metadata_hash
from .writing import (
    delete_partition_metadata,
    remove_member,
    write_epoch,
    write_regex,
    write_target_epoch,
    write_targets,
)

if TYPE_CHECKING:
    from ..shard_state import ShardState


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


def update_target(state: ShardState, group: ConsumerGroup, now_ms: int) -> None:
    """Computes the target for the group's epoch, unless the last one is younger than the assignment interval.

    A later heartbeat computes a deferred target.
    """
    if target_need(group, assignment_interval_ms(state, group.group_id), now_ms) is not TargetNeed.NOW:
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
    write_targets(state, group, targets, group.epoch, now_ms)


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


def restore(state: ShardState, group: ConsumerGroup, now_ms: int) -> None:
    """Starts a whole session for every member after a load, and a whole revocation timeout where one is pending."""
    group.is_outdated = True
    for member_id, member in group.members.items():
        classic = member.metadata.classic_member_metadata
        if classic is not None:
            # The revocation timeout of a classic member begins when it gets REBALANCE_IN_PROGRESS.
            state.timers.set(group.session(member_id), now_ms + classic.session_timeout_ms)
            continue
        state.timers.set(group.session(member_id), now_ms + session_timeout_ms(state, group.group_id))
        if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
            state.timers.set(group.revocation(member_id), now_ms + member.metadata.rebalance_timeout_ms)
