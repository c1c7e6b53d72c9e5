"""One error for a whole request of the classic protocol, where it is not the one of the schema."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ....protocol.messages.join_group import JoinGroupRequest
from ....protocol.schema import Message
from ..kind import ErrorResponse
from .rebalance_errors import join_error


def _join(request: JoinGroupRequest, version: int, error: ErrorCode) -> Message:
    """Names the member id only for an error of the request itself."""
    is_about_it = error in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)
    return join_error(error, request.member_id if is_about_it else "")


def _heartbeat(request: HeartbeatRequest, version: int, error: ErrorCode) -> Message:
    """No error while the group loads, as in Kafka: the client would rejoin for nothing."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)


ERROR_RESPONSES: dict[type[Message], ErrorResponse] = {JoinGroupRequest: _join, HeartbeatRequest: _heartbeat}
