"""StreamsGroupDescribe 0-1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....protocol.internal.streams_group_records import TopologyTopic
from ....protocol.messages.key_values import KeyValue
from ....protocol.messages.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTasks,
    DescribedTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ....protocol.messages.streams_members import TaskIds, TaskOffset, UserEndpoint
from ....protocol.messages.streams_topics import StreamsTopic
from ...result import GroupRequest
from ..group_description import described
from ..shard_state import ShardState
from . import description
from .group import StreamsGroup
from .member import StreamsMember
from .tasks import HeldTasks, TaskId, Tasks, by_subtopology

#: The only assignor.
ASSIGNOR = "sticky"


def describe_groups(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, StreamsGroupDescribeRequest)
    groups = [
        described(state, group_id, StreamsGroup, DescribedStreamsGroup, _own_fields) for group_id in request.group_ids
    ]
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


def _topics(topics: Iterable[TopologyTopic], counts: Mapping[str, int]) -> list[StreamsTopic]:
    return [
        StreamsTopic(
            name=topic.name,
            partitions=counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> DescribedStreamsMember:
    metadata = member.metadata
    endpoint = metadata.user_endpoint
    return DescribedStreamsMember(
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


def _assignment(tasks: Tasks | HeldTasks) -> DescribedTasks:
    return DescribedTasks(
        active_tasks=_tasks(tasks.active), standby_tasks=_tasks(tasks.standby), warmup_tasks=_tasks(tasks.warmup)
    )


def _tasks(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]
