"""ShareGroupHeartbeat (key 76), version 1: a member of a share group joins, goes on, leaves. See coordinator/share/."""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.requests import Followed
from ...protocol.errors import ErrorCode
from ...protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from ..api.share_errors import is_enabled
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> ShareGroupHeartbeatResponse | None:
    if not is_enabled(services):
        error = ErrorCode.UNSUPPORTED_VERSION
        return ShareGroupHeartbeatResponse(error_code=error)
    services.groups.submit(call.request.group_id, call.request, call.version, call, partial(_reply, services, call))
    return None


def _reply(services: Services, call: Call, answer: Followed[ShareGroupHeartbeatResponse]) -> None:
    call.reply(answer.response)
    if isinstance(answer.request, InitializeShareGroupStateRequest):
        services.share_group_states().initialize(answer.request)
