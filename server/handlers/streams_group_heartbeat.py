"""StreamsGroupHeartbeat (KIP-1071), versions 0-1.

Missing topics are made here. See coordinator/groups/streams/heartbeat.py.
"""

from __future__ import annotations

from ...coordinator.groups.streams.heartbeat import NeedsTopics, names_in_topology
from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from ...protocol.schema import Message
from ...replication.controller.state import topic_name_fault
from ..api.authorization import authorized_client, denied_names, denies, denies_on_cluster
from ..coordinators.streams_topics import is_offered
from ..network.call import Call
from ..runtime.internal_topics import INTERNAL_TOPICS
from ..services import Services


def handle(services: Services, call: Call) -> Message | None:
    request = call.request
    if not is_offered(services.config, services.metadata.image):
        return _error_response(ErrorCode.UNSUPPORTED_VERSION)
    if denies(services, call, Operation.READ, ResourceType.GROUP, request.group_id):
        return _error_response(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = names_in_topology(request)
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        words = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        return _error_response(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    invalid = [name for name in names if topic_name_fault(name) is not None]
    if invalid:
        words = f"Topic names {','.join(invalid)} are not valid topic names."
        return _error_response(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    if denied_names(services, call, Operation.DESCRIBE, ResourceType.TOPIC, names):
        return _error_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def reply(answer: Message) -> None:
        if isinstance(answer, NeedsTopics):
            denied = _denied_creations(services, call, answer)
            if denied:
                services.streams_topics().tell_unauthorized(answer.response, denied)
            else:
                services.streams_topics().create(answer.topics, authorized_client(services, call))
                services.streams_topics().tell_errors(answer.response, answer.topics)
            answer = answer.response
        call.reply(answer)

    services.groups.submit(request.group_id, request, call.version, call, reply)
    return None


def _denied_creations(services: Services, call: Call, answer: NeedsTopics) -> list[str]:
    if not denies_on_cluster(services, call, Operation.CREATE, log_denied=False):
        return []
    names = [topic.name for topic in answer.topics]
    denied = denied_names(services, call, Operation.CREATE, ResourceType.TOPIC, names)
    return [name for name in names if name in denied]


def _error_response(error: ErrorCode, words: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error, error_message=words, status=[])
