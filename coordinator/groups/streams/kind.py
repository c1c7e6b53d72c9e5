"""Streams groups (KIP-1071): the coordinator stores the application's topology, and assigns its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from ....protocol.errors import ErrorCode
from ....protocol.internal.streams_group_records import StreamsGroupMetadataKey
from ....protocol.internal.streams_group_records import TopicInfo as TopicInRecord
from ....protocol.messages.offsets import OffsetCommitRequest, TxnOffsetCommitRequest
from ....protocol.messages.streams_groups import (
    Assignment,
    DescribedGroup,
    DescribedSubtopology,
    DescribedTopology,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TaskIds,
    TaskOffset,
    TopicInfo,
    UserEndpoint,
)
from ....protocol.messages.streams_groups import Member as DescribedMember
from ...result import GroupRequest
from ..assigned_group import described, replays, sessions
from ..state import Kind, OffsetRules, ShardState, is_expired, validate_commit, validate_delete, validate_fetch
from . import description, heartbeat
from .assignment import expired, restore
from .group import (
    RECORD_TYPES,
    HeldTasks,
    Member,
    StreamsGroup,
    TaskId,
    Tasks,
    by_subtopology,
    delete_group,
    session_timeout_ms,
)
from .topology import subtopology_of

# Offset rules of streams groups. The rules that all kinds share are in coordinator/groups/state.py.


def validate_transactional_commit(group: StreamsGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Validates a transactional commit. A request without a member is fenced by the producer epoch only (KIP-447)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and (not group.members or (not request.member_id and request.group_instance_id is None)):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.STALE_MEMBER_EPOCH if epoch > member.epoch else ErrorCode.NONE


def validate_partition(
    group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, topic_id: bytes, index: int
) -> ErrorCode:
    """Validates the epoch of a commit for one partition.

    A member with an older epoch may still commit for a task that it has owned since that epoch or before (KIP-1251).
    """
    member = group.members.get(request.member_id)
    epoch = request.generation_id_or_member_epoch
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    topic = next(topic.name for topic in request.topics if topic.topic_id == topic_id)
    subtopology_id = subtopology_of(group.topology, topic) if group.topology is not None else None
    if subtopology_id is None:
        return ErrorCode.STALE_MEMBER_EPOCH
    task = TaskId(subtopology_id, index)
    since = member.assigned.active.get(task, member.revoking.active.get(task))
    return ErrorCode.NONE if since is not None and epoch >= since else ErrorCode.STALE_MEMBER_EPOCH


RULES = OffsetRules(
    validate_commit=validate_commit,
    validate_transactional_commit=validate_transactional_commit,
    validate_delete=validate_delete,
    is_expired=is_expired,
    validate_partition=validate_partition,
    validate_transactional_partition=validate_partition,
    validate_fetch=validate_fetch,
)


# StreamsGroupDescribe 0-1.


#: The only assignor.
ASSIGNOR = "sticky"


def describe_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, StreamsGroupDescribeRequest)
    groups = [described(state, group_id, StreamsGroup, DescribedGroup, _own_fields) for group_id in request.group_ids]
    for reported in groups if request.include_topology_description else ():
        if (group := state.find(StreamsGroup, reported.group_id)) is not None:
            description.tell(state, group, reported)
    state.reply(message, StreamsGroupDescribeResponse(groups=groups))


def _own_fields(group: StreamsGroup) -> dict[str, object]:
    return {
        "assignor_name": ASSIGNOR,
        "topology": _topology(group),
        "members": [_member(group, member) for member in group.members.values()],
    }


def _topology(group: StreamsGroup) -> DescribedTopology | None:
    """Returns the topology, with the partition counts of its internal topics once all topics are ready."""
    if group.topology is None:
        return None
    configured = group.configured
    counts = configured.partition_counts if configured is not None and configured.is_ready else {}
    return DescribedTopology(
        epoch=group.topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=one.subtopology_id,
                source_topics=sorted(one.source_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                repartition_source_topics=_topics(one.repartition_source_topics, counts),
                state_changelog_topics=_topics(one.state_changelog_topics, counts),
            )
            for one in sorted(group.topology.subtopologies, key=lambda one: one.subtopology_id)
        ],
    )


def _topics(topics: Iterable[TopicInRecord], counts: Mapping[str, int]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: Member) -> DescribedMember:
    metadata = member.metadata
    endpoint = metadata.user_endpoint
    return DescribedMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else UserEndpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=tag.key, value=tag.value) for tag in metadata.client_tags],
        task_offsets=_offsets(group.task_offsets.get(member.member_id, {})),
        task_end_offsets=_offsets(group.task_end_offsets.get(member.member_id, {})),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target_of(member.member_id)),
    )


def _offsets(offsets: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=task.subtopology_id, partition=task.partition, offset=offset)
        for task, offset in sorted(offsets.items())
    ]


def _assignment(tasks: Tasks | HeldTasks) -> Assignment:
    return Assignment(
        active_tasks=_tasks(tasks.active), standby_tasks=_tasks(tasks.standby), warmup_tasks=_tasks(tasks.warmup)
    )


def _tasks(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _metadata_changed(state: ShardState, group: StreamsGroup, topics: frozenset[str]) -> None:
    if not topics.isdisjoint(group.required_topics()):
        group.is_outdated = True


def _delete(state: ShardState, group: StreamsGroup) -> None:
    description.deleted(state, group)
    delete_group(state, group)


KIND = Kind(
    name=StreamsGroup.kind,
    operations={
        StreamsGroupHeartbeatRequest: heartbeat.heartbeat,
        StreamsGroupDescribeRequest: describe_groups,
        StreamsGroupTopologyDescriptionUpdateRequest: description.update,
    },
    replays=replays(StreamsGroup, StreamsGroupMetadataKey),
    record_types=RECORD_TYPES,
    error_responses={},
    offsets=RULES,
    restore=restore,
    sessions=partial(sessions, timeout_ms=session_timeout_ms),
    expired=expired,
    delete=_delete,
    validate_deletion=StreamsGroup.validate_deletion,
    metadata_changed=_metadata_changed,
)
