"""AlterShareGroupOffsets: sets the start offsets of a share group without members (KIP-932).

Contract: `protocol/messages/alter_share_group_offsets.py`.
"""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.persister_requests import Followed
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ...protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ...protocol.uuids import ZERO_UUID
from ..access.authorization.requirements import WORDS
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services
from ..share.share_preconditions import READ_TOPICS, share_groups_precondition


def handle(services: Services, call: Call[AlterShareGroupOffsetsRequest]) -> None:
    request = call.request
    names = [topic.topic_name for topic in request.topics]
    denied = READ_TOPICS.denied(services.access.authorizer, call, names)
    rejected = [_denied(services, topic) for topic in request.topics if topic.topic_name in denied]
    if rejected:
        request.topics = [topic for topic in request.topics if topic.topic_name not in denied]
    services.coordinators.groups.submit(
        request.group_id, request, call.version, call, partial(_noted, services, call, rejected)
    )


def _denied(services: Services, topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    found = services.metadata.image.topic(topic.topic_name)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID if found is None else found.id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(partition.partition_index, error, "Topic authorization failed.")
            for partition in topic.partitions
        ],
    )


def _noted(
    services: Services,
    call: Call[AlterShareGroupOffsetsRequest],
    rejected: list[AlterShareGroupOffsetsResponseTopic],
    response: Followed[AlterShareGroupOffsetsResponse],
) -> None:
    if not response.response.error_code:
        response.response.responses += rejected
    if isinstance(response.request, InitializeShareGroupStateRequest):
        services.share.group_states().initialize(response.request, partial(_reply, call, response.response))
    else:
        call.reply(response.response)


def _reply(
    call: Call[AlterShareGroupOffsetsRequest],
    response: AlterShareGroupOffsetsResponse,
    persisted: InitializeShareGroupStateResponse,
) -> None:
    rejected = {
        (result.topic_id, p.partition): p for result in persisted.results for p in result.partitions if p.error_code
    }
    for topic in response.responses:
        for partition in topic.partitions:
            found = rejected.get((topic.topic_id, partition.partition_index))
            if found is not None:
                partition.error_code, partition.error_message = found.error_code, found.error_message
    call.reply(response)


ENDPOINT: ApiEndpoint[AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse] = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(on_group(message=WORDS[ErrorCode.GROUP_AUTHORIZATION_FAILED]), READ_TOPICS),
    place=GROUP_COORDINATOR,
)
