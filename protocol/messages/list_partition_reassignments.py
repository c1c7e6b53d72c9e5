"""ListPartitionReassignments (key 46): the reassignments that go on.

For each partition all replicas, those being added and those being removed (KIP-455). Null asks for all.

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class ListPartitionReassignmentsTopics(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=46)
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    timeout_ms: int = wire(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = wire(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


@struct
class OngoingPartitionReassignment(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] = wire(array(INT32))
    adding_replicas: list[int] = wire(array(INT32))
    removing_replicas: list[int] = wire(array(INT32))


@struct
class OngoingTopicReassignment(Message):
    name: str = wire(STRING)
    partitions: list[OngoingPartitionReassignment] = wire(array(OngoingPartitionReassignment))


@message("0", flexible="0+", key=46)
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    topics: list[OngoingTopicReassignment] = wire(array(OngoingTopicReassignment))
