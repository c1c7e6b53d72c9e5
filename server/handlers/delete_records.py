"""DeleteRecords (key 21), versions 0-2.

Moves the start of a log up to an offset, -1 for the high watermark; whole segments below it go with the next retention
pass. The answer is the smallest log start among the replicas, which with one replica is the new start.

OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION where `cleanup.policy` is `compact` alone,
INVALID_TOPIC_EXCEPTION for internal topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ..hosted_partition import HostedPartition
from ..leaders import absent_error

if TYPE_CHECKING:
    from ..dispatch import Call

HIGH_WATERMARK = -1
_NO_WATERMARK = -1


def handle(call: Call) -> DeleteRecordsResponse:
    request: DeleteRecordsRequest = call.request
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [_delete(call, topic.name, asked.partition_index, asked.offset) for asked in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(topic.name, results))
    return response


def _delete(call: Call, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    hosted = call.broker.partitions.get((topic, index))
    if hosted is None:
        return DeleteRecordsPartitionResult(index, _NO_WATERMARK, absent_error(call.broker.image, topic, index))
    up_to_offset = hosted.high_watermark if offset == HIGH_WATERMARK else offset
    error = _error(hosted, up_to_offset)
    if error:
        return DeleteRecordsPartitionResult(index, _NO_WATERMARK, error)
    hosted.advance_log_start_offset(up_to_offset)
    return DeleteRecordsPartitionResult(index, hosted.log_start_offset, ErrorCode.NONE)


def _error(hosted: HostedPartition, up_to_offset: int) -> int:
    if hosted.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    error = hosted.error_for_epoch(-1)
    if error:
        return error
    if hosted.log.config.compact and not hosted.log.config.delete:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE if 0 <= up_to_offset <= hosted.high_watermark else ErrorCode.OFFSET_OUT_OF_RANGE
