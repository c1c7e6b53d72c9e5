"""AlterShareGroupOffsets (key 91), version 0: where a share group without members goes on (KIP-932)."""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.requests import Followed
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ...protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ..api.share_errors import is_enabled
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> AlterShareGroupOffsetsResponse | None:
    if not is_enabled(services):
        error = ErrorCode.UNSUPPORTED_VERSION
        return AlterShareGroupOffsetsResponse(error_code=error)
    services.groups.submit(call.request.group_id, call.request, call.version, call, partial(_noted, services, call))
    return None


def _noted(services: Services, call: Call, answer: Followed[AlterShareGroupOffsetsResponse]) -> None:
    if isinstance(answer.request, InitializeShareGroupStateRequest):
        services.share_group_states().initialize(answer.request, partial(_reply, call, answer.response))
    else:
        call.reply(answer.response)


def _reply(call: Call, response: AlterShareGroupOffsetsResponse, persisted: InitializeShareGroupStateResponse) -> None:
    refused = {
        (result.topic_id, p.partition): p for result in persisted.results for p in result.partitions if p.error_code
    }
    for topic in response.responses:
        for partition in topic.partitions:
            found = refused.get((topic.topic_id, partition.partition_index))
            if found is not None:
                partition.error_code, partition.error_message = found.error_code, found.error_message
    call.reply(response)
