"""CreatePartitions (key 37): raises the number of partitions of topics.

INVALID_PARTITIONS where it would not grow, REASSIGNMENT_IN_PROGRESS while replicas move. Replicas of the new
partitions may be listed. Each topic asked for has its response.

Versions 0-3, flexible from 2. Additions by version:
- 3: may be throttled by THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = wire(array(INT32))


@struct
class CreatePartitionsTopic(Message):
    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: list[CreatePartitionsAssignment] | None = wire(array(CreatePartitionsAssignment), nullable="0+")


@message("0-3", flexible="2+", key=37)
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    topics: list[CreatePartitionsTopic] = wire(array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


@struct
class CreatePartitionsTopicResult(Message):
    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@message("0-3", flexible="2+", key=37)
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[CreatePartitionsTopicResult] = wire(array(CreatePartitionsTopicResult))
