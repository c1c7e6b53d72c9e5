"""One error for a whole request about streams groups (see coordinator/groups/error_responses.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ....protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ....protocol.schema import Message


def _heartbeat(request: StreamsGroupHeartbeatRequest, error: ErrorCode) -> Message:
    return StreamsGroupHeartbeatResponse(error_code=error, status=[])


def _describe(request: StreamsGroupDescribeRequest, error: ErrorCode) -> Message:
    return StreamsGroupDescribeResponse(
        groups=[DescribedGroup(group_id=g, error_code=error) for g in request.group_ids]
    )


def _update(request: StreamsGroupTopologyDescriptionUpdateRequest, error: ErrorCode) -> Message:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error)


ERROR_RESPONSES: dict[type[Message], Callable[[Any, ErrorCode], Message]] = {
    StreamsGroupHeartbeatRequest: _heartbeat,
    StreamsGroupDescribeRequest: _describe,
    StreamsGroupTopologyDescriptionUpdateRequest: _update,
}
