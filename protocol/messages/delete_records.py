"""DeleteRecords (key 21): moves the start of partitions up.

Everything before the offset goes; -1 means the high watermark. Answered with the new start when all live replicas
have it, else REQUEST_TIMED_OUT. POLICY_VIOLATION on a topic that is only compacted (KIP-107).

Versions 0-2, flexible from 2.
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@struct
class DeleteRecordsPartition(Message):
    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


@struct
class DeleteRecordsTopic(Message):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartition] = wire(array(DeleteRecordsPartition))


@message("0-2", flexible="2+", key=21)
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    topics: list[DeleteRecordsTopic] = wire(array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)


@struct
class DeleteRecordsPartitionResult(Message):
    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


@struct
class DeleteRecordsTopicResult(Message):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartitionResult] = wire(array(DeleteRecordsPartitionResult))


@message("0-2", flexible="2+", key=21)
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[DeleteRecordsTopicResult] = wire(array(DeleteRecordsTopicResult))
