"""StreamsGroupTopologyDescriptionUpdate (KIP-1331), version 0. See coordinator/streams/description.py."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ..dispatch import Call
from ..streams_groups import is_offered


def handle(call: Call) -> StreamsGroupTopologyDescriptionUpdateResponse | None:
    if not is_offered(call.broker):
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    call.broker.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None
