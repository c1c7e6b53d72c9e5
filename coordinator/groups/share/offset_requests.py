"""Admin requests on share groups: AlterShareGroupOffsets 0, DeleteShareGroupOffsets 0, and the deletion of a group.

Each request has two steps: the group records its intention, then the persister carries it out. Only groups without
members can be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from ....protocol.errors import ErrorCode
from ....protocol.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from ....protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ....protocol.schema import Message
from ...result import GroupRequest
from ..assigned_group import no_group
from .group import (
    UNKNOWN_TOPIC,
    ShareGroup,
    StatePartitions,
    TopicState,
    TopicStates,
    joined,
    missing,
    without,
    write_states,
)

if TYPE_CHECKING:
    from ..state import ShardState


# Internal requests and responses of a share group's shard: the steps that involve the persister.
#
# The caller of the shard sends the requests to the persister and reports the results to the shard.


Response = TypeVar("Response", bound=Message)


@dataclass(eq=False)
class Followed(Message, Generic[Response]):
    """A response to a client, and the request that the persister gets with it (or before it, depending on the API)."""

    response: Response
    request: InitializeShareGroupStateRequest | DeleteShareGroupStateRequest | None


@dataclass(eq=False)
class StatesInitialized(Message):
    """The persister has initialized the state of these partitions, or has failed to."""

    group_id: str
    partitions: dict[bytes, frozenset[int]]
    has_failed: bool = False


@dataclass(eq=False)
class StatesDeleted(Message):
    """The persister has deleted the state of these topics."""

    group_id: str
    topic_ids: frozenset[bytes]


@dataclass(eq=False)
class DeletionOfGroups(Message):
    """A request to delete the share groups among these. Their state is deleted first."""

    group_ids: list[str]


@dataclass(eq=False)
class DeletionsOfStates(Message):
    """Group -> the request to the persister, or the error that prevents the deletion. Contains only share groups."""

    requests: dict[str, DeleteShareGroupStateRequest]
    errors: dict[str, ErrorCode]


@dataclass(eq=False)
class InitializedPartitions(Message):
    """A request for the partitions of a group that the persister has initialized. The response is `KnownPartitions`."""

    group_id: str


@dataclass(eq=False)
class KnownPartitions(Message):
    error: ErrorCode
    partitions: dict[bytes, frozenset[int]]


@dataclass(eq=False)
class Done(Message):
    """An acknowledgement. `error` is NONE, or the reason why the shard did not get the request."""

    error: ErrorCode = ErrorCode.NONE


# Initialization of a group's share partitions: requests to the persister and their results.


#: The partition's leader applies share.auto.offset.reset.
UNINITIALIZED_OFFSET = -1


def begin(state: ShardState, group: ShareGroup, now: int) -> InitializeShareGroupStateRequest | None:
    """Returns the request for subscribed partitions that the persister has not initialized; None if there are none."""
    retry_before = now - state.config.share_initialize_retry_interval_ms
    asked = missing(group.states or StatePartitions(), state.image, group.subscribed_topics(), retry_before)
    if not asked:
        return None
    write_initializing(state, group, asked, now)
    offsets = {t: dict.fromkeys(sorted(s.partitions), UNINITIALIZED_OFFSET) for t, s in asked.items()}
    return initialize_request(group, offsets)


def write_initializing(state: ShardState, group: ShareGroup, asked: TopicStates, now: int) -> None:
    states = group.states or StatePartitions()
    initializing = joined(states.initializing, asked)
    deleting = {t: name for t, name in states.deleting.items() if t not in initializing}
    group.asked_ms = now
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


def initialized(state: ShardState, message: GroupRequest, now: int) -> None:
    reported = message.request
    assert isinstance(reported, StatesInitialized)
    group = state.find(ShareGroup, reported.group_id)
    states = group.states if group is not None else None
    if group is not None and states is not None and reported.partitions:
        initializing = without(states.initializing, reported.partitions)
        done = states.initialized
        if not reported.has_failed:
            done = joined(done, {t: _named(state, t, indexes) for t, indexes in reported.partitions.items()})
        group.asked_ms = max((s.since_ms for s in initializing.values()), default=now)
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


UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
NOT_EMPTY = "The group is not empty."


def alter_offsets(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, AlterShareGroupOffsetsRequest)
    group_id = request.group_id
    group = state.find(ShareGroup, group_id)
    error = ErrorCode.NONE
    words: str | None = None
    if not group_id:
        error, words = ErrorCode.INVALID_GROUP_ID, "The group id is invalid."
    elif group is None and group_id in state.groups:
        error, words = no_group(state.groups, group_id, ShareGroup.kind)
    elif group is not None and group.members:
        error, words = ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY
    if error:
        response = AlterShareGroupOffsetsResponse(error_code=error, error_message=words)
        state.reply(message, Followed(response, None))
        return
    group = group or ShareGroup(group_id)
    offsets: dict[bytes, dict[int, int]] = {}
    response = AlterShareGroupOffsetsResponse(responses=[_altered(state, topic, offsets) for topic in request.topics])
    if not offsets:
        state.reply(message, Followed(response, None))
        return
    asked = {t: TopicState(_name(state, t), frozenset(of_topic)) for t, of_topic in offsets.items()}
    if group_id not in state.groups:
        # The record below gets its time: a heartbeat must not initialize these partitions again.
        state.put(group)
    write_initializing(state, group, asked, now)
    offsets = {topic_id: of_topic for topic_id, of_topic in offsets.items() if of_topic}
    state.reply(message, Followed(response, initialize_request(group, offsets) if offsets else None))


def _altered(
    state: ShardState, topic: AlterShareGroupOffsetsRequestTopic, offsets: dict[bytes, dict[int, int]]
) -> AlterShareGroupOffsetsResponseTopic:
    known = state.image.topic(topic.topic_name)
    response = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
    if known is not None:
        response.topic_id = known.id
        # The topic is recorded even if none of the partitions exists, as in Kafka.
        offsets.setdefault(known.id, {})
    for partition in topic.partitions:
        one = AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
        if known is None or partition.partition_index not in known.partitions:
            one.error_code, one.error_message = UNKNOWN
        else:
            offsets[known.id][partition.partition_index] = partition.start_offset
        response.partitions.append(one)
    return response


def delete_offsets(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, DeleteShareGroupOffsetsRequest)
    group = state.find(ShareGroup, request.group_id)
    error, words = _validate_deletion(state, request.group_id, group)
    if error or group is None:
        response = DeleteShareGroupOffsetsResponse(error_code=error, error_message=words)
        state.reply(message, Followed(response, None))
        return
    response = DeleteShareGroupOffsetsResponse()
    states = group.states
    if states is None:
        state.reply(message, Followed(response, None))
        return
    initialized, deleting = dict(states.initialized), dict(states.deleting)
    asked: dict[bytes, Iterable[int]] = {}
    for wanted in request.topics:
        topic = state.image.topic(wanted.topic_name)
        if topic is None:
            response.responses.append(_not_deleted(wanted.topic_name, *UNKNOWN))
        elif topic.id in initialized:
            asked[topic.id] = sorted(initialized.pop(topic.id).partitions)
            deleting[topic.id] = topic.name
        elif topic.id in deleting:
            asked[topic.id] = sorted(topic.partitions)
        else:
            words = "There is no offset information to delete."
            response.responses.append(_not_deleted(wanted.topic_name, UNKNOWN[0], words))
    write_states(state, group.group_id, StatePartitions(states.initializing, initialized, deleting))
    state.reply(message, Followed(response, delete_request(group.group_id, asked)))


def _validate_deletion(state: ShardState, group_id: str, group: ShareGroup | None) -> tuple[ErrorCode, str | None]:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID, "The group id is invalid."
    if group is None:
        return no_group(state.groups, group_id, ShareGroup.kind, "Group")
    return (ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY) if group.members else (ErrorCode.NONE, None)


def _not_deleted(name: str, error: ErrorCode, words: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=error, error_message=words)


def delete_request(group_id: str, partitions: Mapping[bytes, Iterable[int]]) -> DeleteShareGroupStateRequest | None:
    if not partitions:
        return None
    topics = [
        DeleteStateData(topic_id=topic_id, partitions=[DeleteStatePartition(partition=index) for index in indexes])
        for topic_id, indexes in partitions.items()
    ]
    return DeleteShareGroupStateRequest(group_id=group_id, topics=topics)


def deleted(state: ShardState, message: GroupRequest, now: int) -> None:
    reported = message.request
    assert isinstance(reported, StatesDeleted)
    group = state.find(ShareGroup, reported.group_id)
    if group is not None and group.states is not None:
        states = group.states
        left = {t: name for t, name in states.deleting.items() if t not in reported.topic_ids}
        write_states(state, group.group_id, StatePartitions(states.initializing, states.initialized, left))
    state.reply(message, Done())


def delete_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    reported = message.request
    assert isinstance(reported, DeletionOfGroups)
    response = DeletionsOfStates({}, {})
    for group_id in reported.group_ids:
        group = state.find(ShareGroup, group_id)
        if group is None:
            continue
        if group.members:
            response.errors[group_id] = ErrorCode.NON_EMPTY_GROUP
        elif group.states is not None:
            request = _delete_all(state, group, group.states)
            if request is not None:
                response.requests[group_id] = request
    state.reply(message, response)


def _delete_all(state: ShardState, group: ShareGroup, states: StatePartitions) -> DeleteShareGroupStateRequest | None:
    candidates = joined(states.initialized, states.initializing)
    again = {
        topic_id: TopicState(topic.name, frozenset(topic.partitions))
        for topic_id in states.deleting
        if (topic := state.image.topic_by_id(topic_id)) is not None
    }
    candidates = joined(candidates, again)
    deleting = {topic_id: candidate.name for topic_id, candidate in candidates.items()}
    write_states(state, group.group_id, StatePartitions(deleting=deleting))
    return delete_request(group.group_id, {t: sorted(s.partitions) for t, s in candidates.items()})


def initialized_partitions(state: ShardState, message: GroupRequest, now: int) -> None:
    asked = message.request
    assert isinstance(asked, InitializedPartitions)
    group = state.find(ShareGroup, asked.group_id)
    states = group.states if group is not None else None
    known = {} if states is None else {t: s.partitions for t, s in states.initialized.items()}
    state.reply(message, KnownPartitions(ErrorCode.NONE, known))


def _name(state: ShardState, topic_id: bytes) -> str:
    topic = state.image.topic_by_id(topic_id)
    assert topic is not None
    return topic.name
