"""DeleteShareGroupOffsets (key 92), version 0: topics that a share group without members is to know no more (KIP-932)."""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.requests import Followed
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ...protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ..api.share_errors import is_enabled
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> DeleteShareGroupOffsetsResponse | None:
    if not is_enabled(services):
        error = ErrorCode.UNSUPPORTED_VERSION
        return DeleteShareGroupOffsetsResponse(error_code=error)
    services.groups.submit(call.request.group_id, call.request, call.version, call, partial(_noted, services, call))
    return None


def _noted(services: Services, call: Call, answer: Followed[DeleteShareGroupOffsetsResponse]) -> None:
    if isinstance(answer.request, DeleteShareGroupStateRequest):
        services.share_group_states().delete(answer.request, partial(_reply, services, call, answer.response))
    else:
        call.reply(answer.response)


def _reply(services: Services, call: Call, response: DeleteShareGroupOffsetsResponse, errors: dict[bytes, int]) -> None:
    for topic_id, error in errors.items():
        topic = services.metadata.image.topic_by_id(topic_id)
        response.responses.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_id=topic_id,
                topic_name="" if topic is None else topic.name,
                error_code=error,
            )
        )
    call.reply(response)
