"""DeleteShareGroupOffsets (key 92), version 0: topics that a share group without members is to know no more (KIP-932)."""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.offset_requests import Followed
from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ...protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ...protocol.schema import Message
from ..api.authorization import denied_names, group_error
from ..api.share_errors import is_enabled
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> Message | None:
    if not is_enabled(services):
        error = ErrorCode.UNSUPPORTED_VERSION
        return DeleteShareGroupOffsetsResponse(error_code=error)
    if validation_error := group_error(services, call, Operation.DELETE):
        return validation_error
    request: DeleteShareGroupOffsetsRequest = call.request
    names = [topic.topic_name for topic in request.topics]
    denied = denied_names(services, call, Operation.READ, ResourceType.TOPIC, names)
    rejected = [_denied(name) for name in names if name in denied]
    if rejected:
        request.topics = [topic for topic in request.topics if topic.topic_name not in denied]
    services.groups.submit(request.group_id, request, call.version, call, partial(_noted, services, call, rejected))
    return None


def _denied(name: str) -> DeleteShareGroupOffsetsResponseTopic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=error, error_message="Topic authorization failed."
    )


def _noted(
    services: Services,
    call: Call,
    rejected: list[DeleteShareGroupOffsetsResponseTopic],
    answer: Followed[DeleteShareGroupOffsetsResponse],
) -> None:
    if not answer.response.error_code:
        answer.response.responses += rejected
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
