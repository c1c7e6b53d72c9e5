"""Streams groups (KIP-1071): heartbeats, descriptions, and descriptions of topologies."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UINT16, Message, array, message, struct, wire

# StreamsGroupHeartbeat (key 88): a member of a streams group: topology, tasks owned and assigned.
#
# Epoch 0 joins, -1 leaves. The broker makes sure of the internal topics and assigns active, standby and warm-up tasks;
# what is wrong with topology or topics is returned as statuses, not as errors (KIP-1071).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: the recovery lag that is acceptable, in its new place; a description of the topology may be asked for (KIP-1331)


@struct
class KeyValue(Message):
    key: str = wire(STRING)
    value: str = wire(STRING)


@struct
class TopicInfo(Message):
    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: list[KeyValue] = wire(array(KeyValue))


@struct
class UserEndpoint(Message):
    host: str = wire(STRING)
    port: int = wire(UINT16)


@struct
class TaskOffset(Message):
    subtopology_id: str = wire(STRING)
    partition: int = wire(INT32)
    offset: int = wire(INT64)


@struct
class TaskIds(Message):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


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
    state_changelog_topics: list[TopicInfo] = wire(array(TopicInfo))
    repartition_sink_topics: list[str] = wire(array(STRING))
    repartition_source_topics: list[TopicInfo] = wire(array(TopicInfo))
    copartition_groups: list[CopartitionGroup] = wire(array(CopartitionGroup))


@struct
class Topology(Message):
    epoch: int = wire(INT32)
    subtopologies: list[Subtopology] = wire(array(Subtopology))


@message("0-1", flexible="0+", key=88)
class StreamsGroupHeartbeatRequest(Message):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    endpoint_information_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    topology: Topology | None = wire(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    process_id: str | None = wire(STRING, nullable="0+", default=None)
    user_endpoint: UserEndpoint | None = wire(UserEndpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = wire(array(KeyValue), nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = wire(array(TaskOffset), nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = wire(array(TaskOffset), nullable="0+", default=None)
    shutdown_application: bool = wire(BOOL)


@struct
class Status(Message):
    status_code: int = wire(INT8)
    status_detail: str = wire(ERROR_TEXT)


@struct
class TopicPartition(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class EndpointToPartitions(Message):
    user_endpoint: UserEndpoint = wire(UserEndpoint)
    active_partitions: list[TopicPartition] = wire(array(TopicPartition))
    standby_partitions: list[TopicPartition] = wire(array(TopicPartition))


@message("0-1", flexible="0+", key=88)
class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    acceptable_recovery_lag_legacy: int = wire(INT32, "0")
    task_offset_interval_ms: int = wire(INT32)
    acceptable_recovery_lag: int = wire(INT64, "1+", default=-1)
    status: list[Status] | None = wire(array(Status), nullable="0+")
    active_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    topology_description_required: bool = wire(BOOL, "1+")
    endpoint_information_epoch: int = wire(INT32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = wire(
        array(EndpointToPartitions), nullable="0+", default=None
    )


# StreamsGroupDescribe (key 89): streams groups: topology, members and tasks.
#
# GROUP_ID_NOT_FOUND for groups of other types (KIP-1071).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: the topology in words, when asked for (KIP-1331); the assignor's name (KIP-1357)


@message("0-1", flexible="0+", key=89)
class StreamsGroupDescribeRequest(Message):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)
    include_topology_description: bool = wire(BOOL, "1+")


@struct
class Assignment(Message):
    active_tasks: list[TaskIds] = wire(array(TaskIds))
    standby_tasks: list[TaskIds] = wire(array(TaskIds))
    warmup_tasks: list[TaskIds] = wire(array(TaskIds))


@struct
class TopologyDescriptionNode(Message):
    name: str = wire(STRING, "1+")
    node_type: int = wire(INT8, "1+")
    source_topics: list[str] = wire(array(STRING), "1+")
    sink_topic: str | None = wire(STRING, "1+", nullable="1+", default=None)
    stores: list[str] = wire(array(STRING), "1+")
    successors: list[str] = wire(array(STRING), "1+")


@struct
class TopologyDescriptionSubtopology(Message):
    subtopology_id: str = wire(STRING, "1+")
    nodes: list[TopologyDescriptionNode] = wire(array(TopologyDescriptionNode), "1+")


@struct
class TopologyDescriptionGlobalStore(Message):
    source: TopologyDescriptionNode = wire(TopologyDescriptionNode, "1+")
    processor: TopologyDescriptionNode = wire(TopologyDescriptionNode, "1+")


@struct
class TopologyDescription(Message):
    subtopologies: list[TopologyDescriptionSubtopology] = wire(array(TopologyDescriptionSubtopology), "1+")
    global_stores: list[TopologyDescriptionGlobalStore] = wire(array(TopologyDescriptionGlobalStore), "1+")


@struct
class DescribedSubtopology(Message):
    subtopology_id: str = wire(STRING)
    source_topics: list[str] = wire(array(STRING))
    repartition_sink_topics: list[str] = wire(array(STRING))
    state_changelog_topics: list[TopicInfo] = wire(array(TopicInfo))
    repartition_source_topics: list[TopicInfo] = wire(array(TopicInfo))


@struct
class DescribedTopology(Message):
    epoch: int = wire(INT32)
    subtopologies: list[DescribedSubtopology] | None = wire(array(DescribedSubtopology), nullable="0+", default=None)


@struct
class Member(Message):
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: UserEndpoint | None = wire(UserEndpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = wire(array(KeyValue))
    task_offsets: list[TaskOffset] = wire(array(TaskOffset))
    task_end_offsets: list[TaskOffset] = wire(array(TaskOffset))
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    is_classic: bool = wire(BOOL)


@struct
class DescribedGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    topology: DescribedTopology | None = wire(DescribedTopology, nullable="0+", default=None)
    members: list[Member] = wire(array(Member))
    authorized_operations: int = wire(INT32, default=-2147483648)
    topology_description: TopologyDescription | None = wire(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int = wire(INT8, "1+")
    assignor_name: str | None = wire(STRING, "1+", nullable="1+", default=None)


@message("0-1", flexible="0+", key=89)
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = wire(array(DescribedGroup))


# StreamsGroupTopologyDescriptionUpdate (key 93): a member hands in the description of its topology.
#
# When a heartbeat asked for it; kept for StreamsGroupDescribe. STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED (KIP-1331).
#
# Version 0, flexible.


@struct
class UpdatedTopologyDescriptionNode(Message):
    name: str = wire(STRING)
    node_type: int = wire(INT8)
    source_topics: list[str] = wire(array(STRING))
    sink_topic: str | None = wire(STRING, nullable="0+", default=None)
    stores: list[str] = wire(array(STRING))
    successors: list[str] = wire(array(STRING))


@struct
class UpdatedTopologyDescriptionSubtopology(Message):
    subtopology_id: str = wire(STRING)
    nodes: list[UpdatedTopologyDescriptionNode] = wire(array(UpdatedTopologyDescriptionNode))


@struct
class UpdatedTopologyDescriptionGlobalStore(Message):
    source: UpdatedTopologyDescriptionNode = wire(UpdatedTopologyDescriptionNode)
    processor: UpdatedTopologyDescriptionNode = wire(UpdatedTopologyDescriptionNode)


@struct
class UpdatedTopologyDescription(Message):
    subtopologies: list[UpdatedTopologyDescriptionSubtopology] = wire(array(UpdatedTopologyDescriptionSubtopology))
    global_stores: list[UpdatedTopologyDescriptionGlobalStore] = wire(array(UpdatedTopologyDescriptionGlobalStore))


@message("0", flexible="0+", key=93)
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    topology_epoch: int = wire(INT32)
    topology_description: UpdatedTopologyDescription = wire(UpdatedTopologyDescription)


@message("0", flexible="0+", key=93)
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
