"""DeleteShareGroupOffsets: topics that a share group without members is to know no more (KIP-932).

Contract: `protocol/messages/delete_share_group_offsets.py`.
"""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.persister_requests import Followed
from ...metadata.acls import Operation
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ...protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ..access.authorization.requirements import WORDS
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services
from ..share.share_preconditions import READ_TOPICS, share_groups_precondition


def handle(services: Services, call: Call[DeleteShareGroupOffsetsRequest]) -> None:
    request = call.request
    names = [topic.topic_name for topic in request.topics]
    denied = READ_TOPICS.denied(services.access.authorizer, call, names)
    rejected = [_denied(name) for name in names if name in denied]
    if rejected:
        request.topics = [topic for topic in request.topics if topic.topic_name not in denied]
    services.coordinators.groups.submit(
        request.group_id, request, call.version, call, partial(_noted, services, call, rejected)
    )


def _denied(name: str) -> DeleteShareGroupOffsetsResponseTopic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=error, error_message="Topic authorization failed."
    )


def _noted(
    services: Services,
    call: Call[DeleteShareGroupOffsetsRequest],
    rejected: list[DeleteShareGroupOffsetsResponseTopic],
    response: Followed[DeleteShareGroupOffsetsResponse],
) -> None:
    if not response.response.error_code:
        response.response.responses += rejected
    if isinstance(response.request, DeleteShareGroupStateRequest):
        services.share.group_states().delete(response.request, partial(_reply, services, call, response.response))
    else:
        call.reply(response.response)


def _reply(
    services: Services,
    call: Call[DeleteShareGroupOffsetsRequest],
    response: DeleteShareGroupOffsetsResponse,
    errors: dict[bytes, int],
) -> None:
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


ENDPOINT: ApiEndpoint[DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse] = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(on_group(Operation.DELETE, WORDS[ErrorCode.GROUP_AUTHORIZATION_FAILED]), READ_TOPICS),
    place=GROUP_COORDINATOR,
)
