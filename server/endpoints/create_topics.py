"""CreateTopics: topics with their partitions and configurations (KIP-4, KIP-464, KIP-599).

Decided in `replication/controller/topic_creation.py`. Where the version has THROTTLING_QUOTA_EXCEEDED, a request
is refused while its client exceeds its quota of changes to topics. A client without DESCRIBE_CONFIGS on a new topic gets no
configuration of it (KIP-525).

Contract: `protocol/messages/create_topics.py`.
"""

from __future__ import annotations

from collections import Counter

from ...metadata.acls import Operation, ResourceType
from ...metadata.internal_topics import CLUSTER_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ...replication.controller import topic_creation
from ..access.authorization.requirements import Checked, Deciding, Split, without
from ..access.authorization.sessions import AuthorizationSession
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, LARGE_RESERVE, ApiEndpoint
from ..network.portions import TOGETHER, Portioning, by_name

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (topic_creation,)


def _authorized(session: AuthorizationSession, request: CreateTopicsRequest, on: Deciding) -> Checked:
    counts = Counter(topic.name for topic in request.topics)
    names = [name for name, count in counts.items() if count == 1 and name != CLUSTER_METADATA_TOPIC]
    has_cluster = session.allows_on_cluster(Operation.CREATE, log_denied=False)
    creatable = set(names) if has_cluster else session.allowed_names(Operation.CREATE, ResourceType.TOPIC, names)
    shown = session.allowed_names(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, log_denied=False)
    denied = set(names) - creatable
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    results = [
        CreatableTopicResult(name=name, error_code=error, error_message="Authorization failed.", configs=[])
        for name in names
        if name in denied
    ]

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE and topic.name not in shown:
                topic.topic_config_error_code = error
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        response.topics += results
        return response

    kept = [topic for topic in request.topics if topic.name not in denied]
    return without(request, "topics", kept, finish)


def _partitions(request: CreateTopicsRequest) -> int:
    return sum(len(topic.assignments) or max(topic.num_partitions, 1) for topic in request.topics)


ENDPOINT: ApiEndpoint[CreateTopicsRequest, CreateTopicsResponse] = ApiEndpoint(
    authorization=(
        Split("CREATE on CLUSTER, or CREATE on each TOPIC; DESCRIBE_CONFIGS on TOPIC for its configs", _authorized),
    ),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topics",), ("topics",), TOGETHER, by_name, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=_partitions,
    log_reserve=LARGE_RESERVE,
    strict_mutations_since=6,
)
