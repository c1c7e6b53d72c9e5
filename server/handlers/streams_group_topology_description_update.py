"""StreamsGroupTopologyDescriptionUpdate (KIP-1331), version 0: for a plugin that keeps descriptions. We have none.

So no heartbeat ever asks for a description, and one that comes all the same is answered as a broker without a plugin does.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ..dispatch import Call
from ..streams_groups import is_offered


def handle(call: Call) -> StreamsGroupTopologyDescriptionUpdateResponse:
    words = None
    if is_offered(call.broker):
        words = "The broker has no streams group topology description plugin configured."
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=words)
