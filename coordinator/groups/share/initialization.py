"""Initialization of a group's share partitions: requests to the persister and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from ...result import GroupRequest
from ...state_batches import UNINITIALIZED_OFFSET
from .group import ShareGroup
from .persister_requests import Done, StatesInitialized
from .state_partitions import UNKNOWN_TOPIC, StatePartitions, TopicState, TopicStates, joined, missing, without
from .writing import write_states

if TYPE_CHECKING:
    from ..shard_state import ShardState

#: The partition's leader applies share.auto.offset.reset.


def begin(state: ShardState, group: ShareGroup, now_ms: int) -> InitializeShareGroupStateRequest | None:
    """Returns the request for subscribed partitions that the persister has not initialized; None if there are none."""
    retry_before = now_ms - state.config.share_initialize_retry_interval_ms
    asked = missing(group.states or StatePartitions(), state.image, group.subscribed_topics(), retry_before)
    if not asked:
        return None
    write_initializing(state, group, asked, now_ms)
    offsets = {t: dict.fromkeys(sorted(s.partitions), UNINITIALIZED_OFFSET) for t, s in asked.items()}
    return initialize_request(group, offsets)


def write_initializing(state: ShardState, group: ShareGroup, asked: TopicStates, now_ms: int) -> None:
    states = group.states or StatePartitions()
    initializing = joined(states.initializing, asked)
    deleting = {t: name for t, name in states.deleting.items() if t not in initializing}
    group.asked_ms = now_ms
    write_states(state, group.group_id, StatePartitions(initializing, states.initialized, deleting))


def initialize_request(
    group: ShareGroup, offsets: Mapping[bytes, Mapping[int, int]]
) -> InitializeShareGroupStateRequest:
    return InitializeShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    InitializeStatePartition(partition=index, state_epoch=group.epoch, start_offset=offset)
                    for index, offset in of_topic.items()
                ],
            )
            for topic_id, of_topic in offsets.items()
        ],
    )


def initialized(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    reported = message.request
    assert isinstance(reported, StatesInitialized)
    group = state.find(ShareGroup, reported.group_id)
    states = group.states if group is not None else None
    if group is not None and states is not None and reported.partitions:
        initializing = without(states.initializing, reported.partitions)
        done = states.initialized
        if not reported.has_failed:
            done = joined(done, {t: _named(state, t, indexes) for t, indexes in reported.partitions.items()})
        group.asked_ms = max((s.since_ms for s in initializing.values()), default=now_ms)
        write_states(state, group.group_id, replace(states, initializing=initializing, initialized=done))
    state.reply(message, Done())


def _named(state: ShardState, topic_id: bytes, indexes: frozenset[int]) -> TopicState:
    topic = state.image.topic_by_id(topic_id)
    return TopicState(UNKNOWN_TOPIC if topic is None else topic.name, indexes)


def metadata_changed(state: ShardState, group: ShareGroup, topics: frozenset[str]) -> None:
    """Removes deleted topics from the group. The persister deletes their state on its own."""
    if not topics.isdisjoint(group.subscribed_topics()):
        group.is_outdated = True
    states = group.states
    if states is None:
        return

    def is_gone(topic_id: bytes, name: str) -> bool:
        return name in topics and state.image.topic_by_id(topic_id) is None

    left = StatePartitions(
        {t: s for t, s in states.initializing.items() if not is_gone(t, s.name)},
        {t: s for t, s in states.initialized.items() if not is_gone(t, s.name)},
        {t: name for t, name in states.deleting.items() if not is_gone(t, name)},
    )
    if left != states:
        write_states(state, group.group_id, left)
