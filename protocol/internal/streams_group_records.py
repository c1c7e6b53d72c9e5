"""Records of `__consumer_offsets` for KIP-1071 streams groups.

The framing is that of consumer_offsets.py: group (17), members (19), target assignment (20 and 21), each member's
current tasks and tasks to revoke (22), and the topology (23). Tagged fields were added later, so that older brokers
skip them.
"""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, INT64, STRING, UINT16, Message, array, message, struct, wire


@message("0", key=22)
class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class StreamsGroupCurrentMemberAssignmentTaskIds(Message):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))
    assignment_epochs: list[int] | None = wire(array(INT32), nullable="0+", tag=0)


@message("0", flexible="0+", key=22)
class StreamsGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = wire(
        array(StreamsGroupCurrentMemberAssignmentTaskIds)
    )
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = wire(
        array(StreamsGroupCurrentMemberAssignmentTaskIds)
    )
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = wire(
        array(StreamsGroupCurrentMemberAssignmentTaskIds)
    )
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = wire(
        array(StreamsGroupCurrentMemberAssignmentTaskIds)
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = wire(
        array(StreamsGroupCurrentMemberAssignmentTaskIds)
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = wire(
        array(StreamsGroupCurrentMemberAssignmentTaskIds)
    )


@message("0", key=19)
class StreamsGroupMemberMetadataKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class StreamsMemberEndpoint(Message):
    host: str = wire(STRING)
    port: int = wire(UINT16)


@struct
class ClientTag(Message):
    key: str = wire(STRING)
    value: str = wire(STRING)


@message("0", flexible="0+", key=19)
class StreamsGroupMemberMetadataValue(Message):
    instance_id: str | None = wire(STRING, nullable="0+")
    rack_id: str | None = wire(STRING, nullable="0+")
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: StreamsMemberEndpoint | None = wire(StreamsMemberEndpoint, nullable="0+", default=None)
    client_tags: list[ClientTag] = wire(array(ClientTag))


@message("0", key=17)
class StreamsGroupMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@struct
class LastAssignmentConfig(Message):
    key: str = wire(STRING)
    value: str = wire(STRING)


@message("0", flexible="0+", key=17)
class StreamsGroupMetadataValue(Message):
    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)
    validated_topology_epoch: int = wire(INT32, tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = wire(array(LastAssignmentConfig), nullable="0+", tag=1)
    stored_description_topology_epoch: int = wire(INT32, tag=2, default=-1)
    failed_description_topology_epoch: int = wire(INT32, tag=3, default=-1)


@message("0", key=21)
class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class StreamsGroupTargetAssignmentMemberTaskIds(Message):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=21)
class StreamsGroupTargetAssignmentMemberValue(Message):
    active_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = wire(
        array(StreamsGroupTargetAssignmentMemberTaskIds)
    )
    standby_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = wire(
        array(StreamsGroupTargetAssignmentMemberTaskIds)
    )
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = wire(
        array(StreamsGroupTargetAssignmentMemberTaskIds)
    )


@message("0", key=20)
class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=20)
class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)


@message("0", key=23)
class StreamsGroupTopologyKey(Message):
    group_id: str = wire(STRING, "0")


@struct
class TopicConfig(Message):
    key: str = wire(STRING)
    value: str = wire(STRING)


@struct
class TopologyTopic(Message):
    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: list[TopicConfig] = wire(array(TopicConfig))


@struct
class CopartitionGroup(Message):
    source_topics: list[int] = wire(array(INT16))
    source_topic_regex: list[int] = wire(array(INT16))
    repartition_source_topics: list[int] = wire(array(INT16))


@struct
class Subtopology(Message):
    subtopology_id: str = wire(STRING)
    source_topics: list[str] = wire(array(STRING))
    source_topic_regex: list[str] = wire(array(STRING))
    state_changelog_topics: list[TopologyTopic] = wire(array(TopologyTopic))
    repartition_sink_topics: list[str] = wire(array(STRING))
    repartition_source_topics: list[TopologyTopic] = wire(array(TopologyTopic))
    copartition_groups: list[CopartitionGroup] = wire(array(CopartitionGroup))


@message("0", flexible="0+", key=23)
class StreamsGroupTopologyValue(Message):
    epoch: int = wire(INT32)
    subtopologies: list[Subtopology] = wire(array(Subtopology))
