"""Error responses for whole requests, each in the form that its response has for that.

For requests that no shard can take: this broker does not lead their partition, or is still loading it.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...protocol.schema import Message
from .base.kind import ErrorResponse
from .kinds import KINDS


def error_response(request: Message, error: ErrorCode) -> Message:
    """The response to `request` with `error` in each field for an error code."""
    made = _ERROR_RESPONSES.get(type(request)) or KINDS.error_response(type(request))
    return made(request, error)


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[TxnOffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _fetch(request: OffsetFetchRequest, error: ErrorCode) -> Message:
    return OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id=g.group_id, error_code=error) for g in request.groups]
    )


def _offset_delete(request: OffsetDeleteRequest, error: ErrorCode) -> Message:
    return OffsetDeleteResponse(error_code=error)


def _describe(request: DescribeGroupsRequest, error: ErrorCode) -> Message:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=g, error_code=error) for g in request.groups])


def _list(request: ListGroupsRequest, error: ErrorCode) -> Message:
    return ListGroupsResponse(error_code=error)


def _delete(request: DeleteGroupsRequest, error: ErrorCode) -> Message:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=g, error_code=error) for g in request.groups_names]
    )


#: For requests to groups of all kinds.
_ERROR_RESPONSES: dict[type[Message], ErrorResponse] = {
    OffsetCommitRequest: commit_error,
    OffsetFetchRequest: _fetch,
    TxnOffsetCommitRequest: transactional_commit_error,
    OffsetDeleteRequest: _offset_delete,
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: _list,
    DeleteGroupsRequest: _delete,
}
