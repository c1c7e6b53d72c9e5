"""StreamsGroupHeartbeat: a member joins, stays, leaves (KIP-1071).

Decided in `coordinator/groups/streams/heartbeat.py`. Missing topics are created here.

Contract: `protocol/messages/streams_group_heartbeat.py`.
"""

from __future__ import annotations

from ...coordinator.groups.share import kind as share_kind
from ...coordinator.groups.streams import kind
from ...coordinator.groups.streams.response import NeedsTopics
from ...coordinator.groups.streams.validation import names_in_topology
from ...metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ...metadata.internal_topics import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ...replication.controller.topic_names import topic_name_fault
from ..access.authorization.requirements import Each
from ..access.authorization.usual_requirements import on_group
from ..coordinators import topic_creation
from ..coordinators.group_coordinator import GROUP_COORDINATOR, streams_groups_precondition
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services

#: Imported with this file, on a thread. A shard takes all kinds of groups that it does not know at once (`Kinds.load_all`).
PRELOADED = (kind, share_kind, topic_creation)

_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
_CREATED_TOPICS = Each(Operation.CREATE, ResourceType.TOPIC)
_CREATED_ON_CLUSTER = Each(Operation.CREATE, ResourceType.CLUSTER)


def handle(services: Services, call: Call[StreamsGroupHeartbeatRequest]) -> StreamsGroupHeartbeatResponse | None:
    request = call.request
    names = names_in_topology(request)
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        words = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        return _error_response(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    invalid = [name for name in names if topic_name_fault(name) is not None]
    if invalid:
        words = f"Topic names {','.join(invalid)} are not valid topic names."
        return _error_response(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    if _TOPICS.denied(services.access.authorizer, call, names):
        return _error_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def reply(response: StreamsGroupHeartbeatResponse | NeedsTopics) -> None:
        if isinstance(response, NeedsTopics):
            denied = _denied_creations(services, call, response)
            if denied:
                services.coordinators.streams_topics().tell_unauthorized(response.response, denied)
            else:
                client = None if services.access.authorizer is None else (call.principal, call.client_host)
                services.coordinators.streams_topics().create(response.topics, client)
                services.coordinators.streams_topics().tell_errors(response.response, response.topics)
            response = response.response
        call.reply(response)

    services.coordinators.groups.submit(request.group_id, request, call.version, call, reply)
    return None


def _denied_creations(services: Services, call: Call[StreamsGroupHeartbeatRequest], response: NeedsTopics) -> list[str]:
    if not _CREATED_ON_CLUSTER.denies(services.access.authorizer, call, CLUSTER_NAME, log_denied=False):
        return []
    names = [topic.name for topic in response.topics]
    denied = _CREATED_TOPICS.denied(services.access.authorizer, call, names)
    return [name for name in names if name in denied]


def _error_response(error: ErrorCode, words: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error, error_message=words, status=[])


def _rejected(
    call: Call[StreamsGroupHeartbeatRequest], error: ErrorCode, message: str | None
) -> StreamsGroupHeartbeatResponse:
    return _error_response(error)


ENDPOINT: ApiEndpoint[StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse] = ApiEndpoint(
    handle=handle,
    precondition=streams_groups_precondition,
    authorization=(on_group(), _TOPICS, _CREATED_TOPICS, _CREATED_ON_CLUSTER),
    reject=_rejected,
    place=GROUP_COORDINATOR,
    most_items=20_000,  # a member names the tasks that it owns
)
