"""AlterPartitionReassignments (key 45), versions 0-1, flexible from 0."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, STRING, Message, array, message, struct, wire


@struct
class ReassignablePartition(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] | None = wire(array(INT32), nullable="0+", default=None)


@struct
class ReassignableTopic(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartition] = wire(array(ReassignablePartition))


@message("0-1", flexible="0+", key=45)
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = wire(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")


@struct
class ReassignableTopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartitionResponse] = wire(array(ReassignablePartitionResponse))


@message("0-1", flexible="0+", key=45)
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    allow_replication_factor_change: bool = wire(BOOL, "1+", default=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")
    responses: list[ReassignableTopicResponse] = wire(array(ReassignableTopicResponse))
