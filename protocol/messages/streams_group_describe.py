"""StreamsGroupDescribe (key 89): streams groups: topology, members and tasks.

GROUP_ID_NOT_FOUND for groups of other types (KIP-1071).

Versions 0-1, all flexible. Additions by version:
- 1: the topology in words, when asked for (KIP-1331); the assignor's name (KIP-1357)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire
from .key_values import KeyValue
from .streams_members import TaskIds, TaskOffset, UserEndpoint
from .streams_topics import StreamsTopic


@message("0-1", flexible="0+", key=89)
class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)
    include_topology_description: bool = wire(BOOL, "1+")


@struct
class DescribedTasks(Message):
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
    state_changelog_topics: list[StreamsTopic] = wire(array(StreamsTopic))
    repartition_source_topics: list[StreamsTopic] = wire(array(StreamsTopic))


@struct
class DescribedTopology(Message):
    epoch: int = wire(INT32)
    subtopologies: list[DescribedSubtopology] | None = wire(array(DescribedSubtopology), nullable="0+", default=None)


@struct
class DescribedStreamsMember(Message):
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
    assignment: DescribedTasks = wire(DescribedTasks)
    target_assignment: DescribedTasks = wire(DescribedTasks)
    is_classic: bool = wire(BOOL)


@struct
class DescribedStreamsGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    topology: DescribedTopology | None = wire(DescribedTopology, nullable="0+", default=None)
    members: list[DescribedStreamsMember] = wire(array(DescribedStreamsMember))
    authorized_operations: int = wire(INT32, default=-2147483648)
    topology_description: TopologyDescription | None = wire(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int = wire(INT8, "1+")
    assignor_name: str | None = wire(STRING, "1+", nullable="1+", default=None)


@message("0-1", flexible="0+", key=89)
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedStreamsGroup] = wire(array(DescribedStreamsGroup))
