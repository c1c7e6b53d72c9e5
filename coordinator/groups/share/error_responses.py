"""One error for a whole request about share groups, where it is not the one of the schema."""

from __future__ import annotations

from ....protocol.error_responses import error_response_to
from ....protocol.errors import ErrorCode
from ....protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ....protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ....protocol.schema import Message
from ..kind import ErrorResponse
from .persister_requests import (
    DeletionOfGroups,
    DeletionsOfStates,
    Done,
    Followed,
    InitializedPartitions,
    KnownPartitions,
    StatesDeleted,
    StatesInitialized,
)


def _followed(request: Message, version: int, error: ErrorCode) -> Message:
    return Followed(error_response_to(request, version, error), None)


def _delete_groups(request: DeletionOfGroups, version: int, error: ErrorCode) -> Message:
    return DeletionsOfStates({}, dict.fromkeys(request.group_ids, error))


def _known(request: InitializedPartitions, version: int, error: ErrorCode) -> Message:
    return KnownPartitions(error, {})


def _done(request: Message, version: int, error: ErrorCode) -> Message:
    return Done(error)


ERROR_RESPONSES: dict[type[Message], ErrorResponse] = {
    ShareGroupHeartbeatRequest: _followed,
    AlterShareGroupOffsetsRequest: _followed,
    DeleteShareGroupOffsetsRequest: _followed,
    DeletionOfGroups: _delete_groups,
    InitializedPartitions: _known,
    StatesInitialized: _done,
    StatesDeleted: _done,
}
