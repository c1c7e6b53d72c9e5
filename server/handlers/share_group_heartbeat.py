"""ShareGroupHeartbeat (key 76), version 1: a member of a share group joins, stays, leaves. See coordinator/share/."""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.offset_requests import Followed
from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from ...protocol.schema import Message
from ..api.authorization import denied_names, group_error
from ..api.share_errors import is_enabled
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> Message | None:
    if not is_enabled(services):
        error = ErrorCode.UNSUPPORTED_VERSION
        return ShareGroupHeartbeatResponse(error_code=error)
    if validation_error := group_error(services, call):
        return validation_error
    topics = call.request.subscribed_topic_names or ()
    if topics and denied_names(services, call, Operation.DESCRIBE, ResourceType.TOPIC, topics):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    services.groups.submit(call.request.group_id, call.request, call.version, call, partial(_reply, services, call))
    return None


def _reply(services: Services, call: Call, answer: Followed[ShareGroupHeartbeatResponse]) -> None:
    call.reply(answer.response)
    if isinstance(answer.request, InitializeShareGroupStateRequest):
        services.share_group_states().initialize(answer.request)
