"""StreamsGroupHeartbeat (key 88): a member of a streams group: topology, tasks owned and assigned.

Epoch 0 joins, -1 leaves. The broker makes sure of the internal topics and assigns active, standby and warm-up tasks;
what is wrong with topology or topics is returned as statuses, not as errors (KIP-1071).

Versions 0-1, all flexible. Additions by version:
- 1: the recovery lag that is acceptable, in its new place; a description of the topology may be asked for (KIP-1331)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire
from .key_values import KeyValue
from .streams_members import TaskIds, TaskOffset, UserEndpoint
from .streams_topics import StreamsTopic


@struct
class HeartbeatCopartitionGroup(Message):
    source_topics: list[int] = wire(array(INT16))
    source_topic_regex: list[int] = wire(array(INT16))
    repartition_source_topics: list[int] = wire(array(INT16))


@struct
class HeartbeatSubtopology(Message):
    subtopology_id: str = wire(STRING)
    source_topics: list[str] = wire(array(STRING))
    source_topic_regex: list[str] = wire(array(STRING))
    state_changelog_topics: list[StreamsTopic] = wire(array(StreamsTopic))
    repartition_sink_topics: list[str] = wire(array(STRING))
    repartition_source_topics: list[StreamsTopic] = wire(array(StreamsTopic))
    copartition_groups: list[HeartbeatCopartitionGroup] = wire(array(HeartbeatCopartitionGroup))


@struct
class HeartbeatTopology(Message):
    epoch: int = wire(INT32)
    subtopologies: list[HeartbeatSubtopology] = wire(array(HeartbeatSubtopology))


@message("0-1", flexible="0+", key=88)
class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    endpoint_information_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    topology: HeartbeatTopology | None = wire(HeartbeatTopology, nullable="0+", default=None)
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
class StreamsStatus(Message):
    status_code: int = wire(INT8)
    status_detail: str = wire(ERROR_TEXT)


@struct
class EndpointTopicPartitions(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class EndpointToPartitions(Message):
    user_endpoint: UserEndpoint = wire(UserEndpoint)
    active_partitions: list[EndpointTopicPartitions] = wire(array(EndpointTopicPartitions))
    standby_partitions: list[EndpointTopicPartitions] = wire(array(EndpointTopicPartitions))


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
    status: list[StreamsStatus] | None = wire(array(StreamsStatus), nullable="0+")
    active_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = wire(array(TaskIds), nullable="0+", default=None)
    topology_description_required: bool = wire(BOOL, "1+")
    endpoint_information_epoch: int = wire(INT32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = wire(
        array(EndpointToPartitions), nullable="0+", default=None
    )
