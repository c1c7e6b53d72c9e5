"""CreatePartitions: more partitions for topics (KIP-195, KIP-599).

Decided in `replication/controller/partitions.py`. Where the version has THROTTLING_QUOTA_EXCEEDED, a
request is refused while its client exceeds its quota of changes to topics.

Contract: `protocol/messages/create_partitions.py`.
"""

from __future__ import annotations

from collections import Counter

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ...replication.controller import partitions
from ..access.authorization.requirements import Checked, Deciding, Split, adding, without
from ..access.authorization.sessions import AuthorizationSession
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, LARGE_RESERVE, ApiEndpoint
from ..network.portions import TOGETHER, Portioning, by_name

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (partitions,)


def _authorized(session: AuthorizationSession, request: CreatePartitionsRequest, on: Deciding) -> Checked:
    counts = Counter(topic.name for topic in request.topics)
    names = [name for name, count in counts.items() if count == 1]
    denied = set(names) - session.allowed_names(Operation.ALTER, ResourceType.TOPIC, names)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    results = [CreatePartitionsTopicResult(name=name, error_code=error) for name in names if name in denied]
    kept = [topic for topic in request.topics if topic.name not in denied]
    return without(request, "topics", kept, adding("results", results))


ENDPOINT: ApiEndpoint[CreatePartitionsRequest, CreatePartitionsResponse] = ApiEndpoint(
    authorization=(Split("ALTER on each TOPIC", _authorized),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topics",), ("results",), TOGETHER, by_name, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=lambda request: sum(topic.count for topic in request.topics),
    log_reserve=LARGE_RESERVE,
    strict_mutations_since=3,
)
