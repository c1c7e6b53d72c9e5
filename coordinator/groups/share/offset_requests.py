"""Admin requests on share groups: AlterShareGroupOffsets 0, DeleteShareGroupOffsets 0, and the deletion of a group.

Each request has two steps: the group records its intention, then the persister carries it out. Only groups without
members can be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from ....protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ....protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ....protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
)
from ...result import GroupRequest
from ..member_checks import no_group
from .group import ShareGroup
from .initialization import initialize_request, write_initializing
from .persister_requests import (
    DeletionOfGroups,
    DeletionsOfStates,
    Done,
    Followed,
    InitializedPartitions,
    KnownPartitions,
    StatesDeleted,
)
from .state_partitions import StatePartitions, TopicState, joined
from .writing import write_states

if TYPE_CHECKING:
    from ..shard_state import ShardState

UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
NOT_EMPTY = "The group is not empty."


def alter_offsets(state: ShardState, message: GroupRequest, now_ms: int) -> None:
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
    write_initializing(state, group, asked, now_ms)
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


def delete_offsets(state: ShardState, message: GroupRequest, now_ms: int) -> None:
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


def deleted(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    reported = message.request
    assert isinstance(reported, StatesDeleted)
    group = state.find(ShareGroup, reported.group_id)
    if group is not None and group.states is not None:
        states = group.states
        left = {t: name for t, name in states.deleting.items() if t not in reported.topic_ids}
        write_states(state, group.group_id, StatePartitions(states.initializing, states.initialized, left))
    state.reply(message, Done())


def delete_groups(state: ShardState, message: GroupRequest, now_ms: int) -> None:
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


def initialized_partitions(state: ShardState, message: GroupRequest, now_ms: int) -> None:
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
