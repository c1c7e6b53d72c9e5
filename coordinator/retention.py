"""When committed offsets go: after their retention (KIP-211), with their topic, or with their group.

Of a group without members the retention counts from the day it became empty; of one whose members subscribe to other
topics, and of consumers that assign themselves, from the commit. A commit that came with a retention time of its own
(OffsetCommit 2-4) goes by that. A group without members and without offsets is deleted.
"""

from __future__ import annotations

from .classic.group import ClassicGroup, State
from .classic.subscriptions import CONSUMER_PROTOCOL_TYPE
from .consumer import writing
from .consumer.group import ConsumerGroup
from .offset_store import CommittedOffset
from .state import ShardState

NO_EXPIRY_OF_ITS_OWN = -1


def expire_offsets(state: ShardState, now: int) -> None:
    for group in list(state.groups.values()):
        if _expire_group(state, group, now) and group.state is State.EMPTY:
            state.delete_group(group.group_id)

    for consumer_group in list(state.consumer_groups.values()):
        if _expire_consumer_group(state, consumer_group, now) and not consumer_group.members:
            writing.delete_group(state, consumer_group)


def _expire_consumer_group(state: ShardState, group: ConsumerGroup, now: int) -> bool:
    """True when no offset is left. What a member subscribes to is kept; the rest goes by the time of its commit."""
    nothing_left = not state.offsets.has_pending(group.group_id)
    subscribed = group.subscribed_topics()
    for topic, partitions in list(state.offsets.of_group(group.group_id).items()):
        for index, committed in list(partitions.items()):
            age_ms = now - committed.commit_timestamp_ms
            unstable = state.offsets.is_pending(group.group_id, topic, index)
            if topic in subscribed or unstable or age_ms < state.config.offsets_retention_ms:
                nothing_left = False
            else:
                state.write_offset(group.group_id, topic, index, None)
    return nothing_left


def _expire_group(state: ShardState, group: ClassicGroup, now: int) -> bool:
    """True when no offset of the group is left."""
    nothing_left = not state.offsets.has_pending(group.group_id)
    may_expire = _may_expire(group)
    for topic, partitions in list(state.offsets.of_group(group.group_id).items()):
        is_kept = not may_expire or group.is_subscribed_to(topic)
        for index, committed in list(partitions.items()):
            unstable = state.offsets.is_pending(group.group_id, topic, index)
            if is_kept or unstable or not _is_expired(state, group, committed, now):
                nothing_left = False
            else:
                state.write_offset(group.group_id, topic, index, None)
    return nothing_left


def _may_expire(group: ClassicGroup) -> bool:
    """Of a group in use it must be known what it uses."""
    if group.protocol_type is None or group.state is State.EMPTY:
        return True
    is_known = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
    return is_known and group.state is State.STABLE


def _is_expired(state: ShardState, group: ClassicGroup, committed: CommittedOffset, now: int) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY_OF_ITS_OWN:
        return now >= committed.expire_timestamp_ms
    since = committed.commit_timestamp_ms
    if group.protocol_type is not None and group.state is State.EMPTY and group.state_timestamp_ms != -1:
        since = group.state_timestamp_ms
    return now - since >= state.config.offsets_retention_ms


def delete_offsets_of_topics(state: ShardState, deleted: dict[str, bytes]) -> None:
    """`deleted`: name -> id. Offsets committed under another id are of a topic that has the name now."""
    for group_id, topics in list(state.offsets.groups()):
        for name in [name for name in topics if name in deleted]:
            for index, committed in list(topics[name].items()):
                if committed.topic_id in (bytes(16), deleted[name]):
                    state.write_offset(group_id, name, index, None)


def delete_offsets_of_group(state: ShardState, group_id: str) -> None:
    committed = [(name, index) for name, indexes in state.offsets.of_group(group_id).items() for index in indexes]
    for topic, index in dict.fromkeys([*committed, *state.offsets.pending_of(group_id)]):
        state.write_offset(group_id, topic, index, None)
