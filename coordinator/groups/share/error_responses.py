"""One error for a whole request about share groups (see coordinator/groups/error_responses.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from ....protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from ....protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ....protocol.schema import Message
from .requests import (
    DeletionOfGroups,
    DeletionsOfStates,
    Done,
    Followed,
    InitializedPartitions,
    KnownPartitions,
    StatesDeleted,
    StatesInitialized,
)


def _heartbeat(request: ShareGroupHeartbeatRequest, error: ErrorCode) -> Message:
    return Followed(ShareGroupHeartbeatResponse(error_code=error), None)


def _describe(request: ShareGroupDescribeRequest, error: ErrorCode) -> Message:
    groups = [DescribedGroup(group_id=group_id, error_code=error) for group_id in request.group_ids]
    return ShareGroupDescribeResponse(groups=groups)


def _alter(request: AlterShareGroupOffsetsRequest, error: ErrorCode) -> Message:
    return Followed(AlterShareGroupOffsetsResponse(error_code=error), None)


def _delete(request: DeleteShareGroupOffsetsRequest, error: ErrorCode) -> Message:
    return Followed(DeleteShareGroupOffsetsResponse(error_code=error), None)


def _delete_groups(request: DeletionOfGroups, error: ErrorCode) -> Message:
    return DeletionsOfStates({}, dict.fromkeys(request.group_ids, error))


def _known(request: InitializedPartitions, error: ErrorCode) -> Message:
    return KnownPartitions(error, {})


def _done(request: Message, error: ErrorCode) -> Message:
    return Done(error)


ERROR_RESPONSES: dict[type[Message], Callable[[Any, ErrorCode], Message]] = {
    ShareGroupHeartbeatRequest: _heartbeat,
    ShareGroupDescribeRequest: _describe,
    AlterShareGroupOffsetsRequest: _alter,
    DeleteShareGroupOffsetsRequest: _delete,
    DeletionOfGroups: _delete_groups,
    InitializedPartitions: _known,
    StatesInitialized: _done,
    StatesDeleted: _done,
}
