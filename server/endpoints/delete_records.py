"""DeleteRecords: moves the start of partitions up (KIP-107).

Moves the start of a log up to an offset, -1 for the high watermark; whole segments below it go with the next retention
pass. The response is the smallest log start among the replicas that are alive, and waits for them to come after;
REQUEST_TIMED_OUT after the request's timeout, when they are still asked to.

OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION where `cleanup.policy` is `compact` alone, or for a mirror,
INVALID_TOPIC_EXCEPTION for internal topics.

Contract: `protocol/messages/delete_records.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ..access.authorization.requirements import Each
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import TOPIC_PARTITIONS
from ..partitions.hosted_partition import HostedPartition
from ..partitions.parked_requests import Deadlines, Parked

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import Services

_TOPICS = Each(Operation.DELETE, ResourceType.TOPIC)
HIGH_WATERMARK = -1
_NO_WATERMARK = -1


def handle(services: Services, call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse | None:
    request = call.request
    response = DeleteRecordsResponse()
    waiting: list[_Deletion] = []
    names = [topic.name for topic in request.topics]
    denied = _TOPICS.denied(services.access.authorizer, call, names)
    for topic in request.topics:
        if topic.name in denied:
            response.topics.append(DeleteRecordsTopicResult(topic.name, list(map(_denied, topic.partitions))))
            continue
        results = [
            _delete(services, topic.name, asked.partition_index, asked.offset, waiting) for asked in topic.partitions
        ]
        response.topics.append(DeleteRecordsTopicResult(topic.name, results))
    if not waiting:
        return response
    ParkedDeletion(services.produce.deadlines, call, response, waiting)
    return None


def _denied(asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeleteRecordsPartitionResult(asked.partition_index, _NO_WATERMARK, error)


class _Deletion(NamedTuple):
    """A deletion on a partition with replicas that have not caught up yet."""

    hosted: HostedPartition
    offset: int
    result: DeleteRecordsPartitionResult


def _delete(
    services: Services, topic: str, index: int, offset: int, waiting: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    hosted = services.partitions.hosted.get((topic, index))
    if hosted is None:
        return DeleteRecordsPartitionResult(index, _NO_WATERMARK, services.replicas.leaders.absent_error(topic, index))
    up_to_offset = hosted.high_watermark if offset == HIGH_WATERMARK else offset
    error = _error(hosted, up_to_offset)
    if error:
        return DeleteRecordsPartitionResult(index, _NO_WATERMARK, error)
    hosted.advance_log_start_offset(up_to_offset)
    result = DeleteRecordsPartitionResult(index, hosted.low_watermark, ErrorCode.NONE)
    if result.low_watermark < up_to_offset:
        waiting.append(_Deletion(hosted, up_to_offset, result))
    return result


class ParkedDeletion(Parked):
    """A response that waits for followers to delete too."""

    __slots__ = ("_call", "_deadlines", "_pending", "_response")

    def __init__(
        self,
        deadlines: Deadlines,
        call: Call[DeleteRecordsRequest],
        response: DeleteRecordsResponse,
        waiting: list[_Deletion],
    ) -> None:
        super().__init__()
        self._call = call
        self._response = response
        self._pending = {id(one.result): one for one in waiting}
        self._deadlines = deadlines
        deadlines.add(self, max(0, call.request.timeout_ms))
        for one in waiting:
            one.hosted.when_deleted(one.offset, partial(self._finish_one, one))

    def _finish_one(self, deletion: _Deletion, error: int) -> None:
        if self._pending.pop(id(deletion.result), None) is None:
            return
        deletion.result.error_code = error
        deletion.result.low_watermark = _NO_WATERMARK if error else deletion.hosted.low_watermark
        if not self._pending:
            self._deadlines.remove(self)
            self._call.reply(self._response)

    def expired(self) -> None:
        for one in self._pending.values():
            one.result.error_code, one.result.low_watermark = ErrorCode.REQUEST_TIMED_OUT, one.hosted.low_watermark
        self._pending.clear()
        self._call.reply(self._response)


def _error(hosted: HostedPartition, up_to_offset: int) -> int:
    if hosted.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if hosted.rules.mirror:
        return ErrorCode.POLICY_VIOLATION
    error = hosted.error_for_epoch(-1)
    if error:
        return error
    if hosted.log.config.compact and not hosted.log.config.delete:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE if 0 <= up_to_offset <= hosted.high_watermark else ErrorCode.OFFSET_OUT_OF_RANGE


ENDPOINT: ApiEndpoint[DeleteRecordsRequest, DeleteRecordsResponse] = ApiEndpoint(
    handle=handle, authorization=(_TOPICS,), portionings=TOPIC_PARTITIONS
)
