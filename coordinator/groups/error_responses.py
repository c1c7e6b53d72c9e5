"""One error for a whole request, in the form that its response has for that.

For requests that no shard can take: this broker does not lead their partition, or is still loading it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.messages.join_group import JoinGroupRequest
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from ...protocol.messages.sync_group import SyncGroupRequest
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...protocol.schema import Message
from .classic.refusals import join_refused, sync_refused
from .consumer import refused as consumer_refused

Refused = Callable[[Any, ErrorCode], Message]


def refused(request: Message, error: ErrorCode) -> Message:
    """The response to `request` that says `error` wherever it can say one."""
    if type(request) not in _REFUSALS:
        from . import kinds  # which know this module

        kinds.load_lazy_kinds()
    made: Message = _REFUSALS[type(request)](request, error)
    return made


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
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


def transactional_commit_refused(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
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


def _join(request: JoinGroupRequest, error: ErrorCode) -> Message:
    """Only what is wrong with the request itself is told with its member id."""
    is_about_it = error in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)
    return join_refused(error, request.member_id if is_about_it else "")


def _sync(request: SyncGroupRequest, error: ErrorCode) -> Message:
    return sync_refused(error)


def _heartbeat(request: HeartbeatRequest, error: ErrorCode) -> Message:
    """While the group loads, nobody is told that it is not there (as Kafka: the client would rejoin for nothing)."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)


def _leave(request: LeaveGroupRequest, error: ErrorCode) -> Message:
    return LeaveGroupResponse(error_code=error)


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


_REFUSALS: dict[type[Message], Refused] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: commit_refused,
    OffsetFetchRequest: _fetch,
    TxnOffsetCommitRequest: transactional_commit_refused,
    OffsetDeleteRequest: _offset_delete,
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: _list,
    DeleteGroupsRequest: _delete,
    **consumer_refused.REFUSED,
}


def add(refused_by_kind: Mapping[type[Message], Refused]) -> None:
    """Of a kind of groups that is loaded when it is met (kinds.py)."""
    _REFUSALS.update(refused_by_kind)
