"""StreamsGroupTopologyDescriptionUpdate (KIP-1331), version 0. See coordinator/groups/streams/description.py."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ...protocol.schema import Message
from ..api.authorization import group_error
from ..coordinators.streams_topics import is_offered
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> Message | None:
    if not is_offered(services.config, services.metadata.image):
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if validation_error := group_error(services, call):
        return validation_error
    services.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None
