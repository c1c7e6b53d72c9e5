"""ShareGroupHeartbeat (key 76), version 1: a member of a share group joins, goes on, leaves. See coordinator/share/."""

from __future__ import annotations

from functools import partial

from ...coordinator.share.requests import Followed
from ...protocol.errors import ErrorCode
from ...protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from ..dispatch import Call
from ..share_groups import initialize
from ..share_refusals import is_enabled


def handle(call: Call) -> ShareGroupHeartbeatResponse | None:
    if not is_enabled(call):
        error = ErrorCode.UNSUPPORTED_VERSION
        return ShareGroupHeartbeatResponse(error_code=error)
    call.broker.groups.submit(call.request.group_id, call.request, call.version, call, partial(_reply, call))
    return None


def _reply(call: Call, answer: Followed[ShareGroupHeartbeatResponse]) -> None:
    call.reply(answer.response)
    if isinstance(answer.request, InitializeShareGroupStateRequest):
        initialize(call.broker, answer.request)
