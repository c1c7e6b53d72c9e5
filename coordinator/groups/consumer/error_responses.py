"""One error for a whole request about consumer groups (see coordinator/groups/error_responses.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ....protocol.schema import Message


def _heartbeat(request: ConsumerGroupHeartbeatRequest, error: ErrorCode) -> Message:
    return ConsumerGroupHeartbeatResponse(error_code=error)


def _describe(request: ConsumerGroupDescribeRequest, error: ErrorCode) -> Message:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=g, error_code=error) for g in request.group_ids]
    )


ERROR_RESPONSES: dict[type[Message], Callable[[Any, ErrorCode], Message]] = {
    ConsumerGroupHeartbeatRequest: _heartbeat,
    ConsumerGroupDescribeRequest: _describe,
}
