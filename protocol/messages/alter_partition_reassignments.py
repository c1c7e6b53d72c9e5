"""AlterPartitionReassignments (key 45): moves partitions to other replicas, or calls that off by null.

New replicas are added, caught up, and then the old ones taken out (KIP-455). Each partition answers for itself;
NO_REASSIGNMENT_IN_PROGRESS when there is nothing to call off.

Versions 0-1, all flexible. Additions by version:
- 1: a change of the replication factor can be forbidden (KIP-860)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class ReassignablePartition(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] | None = wire(array(INT32), nullable="0+", default=None)


@struct
class ReassignableTopic(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartition] = wire(array(ReassignablePartition))


@message("0-1", flexible="0+", key=45)
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = wire(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@struct
class ReassignableTopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartitionResponse] = wire(array(ReassignablePartitionResponse))


@message("0-1", flexible="0+", key=45)
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    allow_replication_factor_change: bool = wire(BOOL, "1+", default=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    responses: list[ReassignableTopicResponse] = wire(array(ReassignableTopicResponse))
