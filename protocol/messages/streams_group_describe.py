"""StreamsGroupDescribe (key 89): streams groups: topology, members and tasks.

GROUP_ID_NOT_FOUND for groups of other types (KIP-1071).

Versions 0-1, all flexible. Additions by version:
- 1: the topology in words, when asked for (KIP-1331); the assignor's name (KIP-1357)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UINT16, Message, array, message, struct, wire


@message("0-1", flexible="0+", key=89)
class StreamsGroupDescribeRequest(Message):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)
    include_topology_description: bool = wire(BOOL, "1+")


@struct
class Endpoint(Message):
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
class Assignment(Message):
    active_tasks: list[TaskIds] = wire(array(TaskIds))
    standby_tasks: list[TaskIds] = wire(array(TaskIds))
    warmup_tasks: list[TaskIds] = wire(array(TaskIds))


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
class Subtopology(Message):
    subtopology_id: str = wire(STRING)
    source_topics: list[str] = wire(array(STRING))
    repartition_sink_topics: list[str] = wire(array(STRING))
    state_changelog_topics: list[TopicInfo] = wire(array(TopicInfo))
    repartition_source_topics: list[TopicInfo] = wire(array(TopicInfo))


@struct
class Topology(Message):
    epoch: int = wire(INT32)
    subtopologies: list[Subtopology] | None = wire(array(Subtopology), nullable="0+", default=None)


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
    user_endpoint: Endpoint | None = wire(Endpoint, nullable="0+", default=None)
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
    topology: Topology | None = wire(Topology, nullable="0+", default=None)
    members: list[Member] = wire(array(Member))
    authorized_operations: int = wire(INT32, default=-2147483648)
    topology_description: TopologyDescription | None = wire(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int = wire(INT8, "1+")
    assignor_name: str | None = wire(STRING, "1+", nullable="1+", default=None)


@message("0-1", flexible="0+", key=89)
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = wire(array(DescribedGroup))
