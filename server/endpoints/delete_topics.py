"""DeleteTopics: topics are deleted by name or by id (KIP-516, KIP-599).

Decided in `replication/controller/topic_deletion.py`. Where the version has THROTTLING_QUOTA_EXCEEDED, a request is
refused while its client exceeds its quota of changes to topics. Unlike other responses this one names topics that the
client may not describe as unauthorized, whether they exist or not.

Contract: `protocol/messages/delete_topics.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ...protocol.uuids import ZERO_UUID
from ...replication.controller import topic_deletion
from ..access.authorization.requirements import WORDS, Checked, Deciding, Split, adding
from ..access.authorization.sessions import AuthorizationSession
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint
from ..network.portions import TOGETHER, Portioning

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (topic_deletion,)


def _authorized(session: AuthorizationSession, request: DeleteTopicsRequest, on: Deciding) -> Checked:
    if not on.deletes_topics or session.allows_on_cluster(Operation.DELETE, log_denied=False):
        return Checked(request)
    states, image = request.topics, on.image
    named = Counter([*request.topic_names, *(s.name for s in states if s.name is not None and s.topic_id == ZERO_UUID)])
    ids = Counter(state.topic_id for state in states if state.name is None and state.topic_id != ZERO_UUID)
    names = {name for name, count in named.items() if count == 1}
    of_ids = {i: found.name for i, n in ids.items() if n == 1 and (found := image.topic_by_id(i)) is not None}
    asked = names | set(of_ids.values())
    describable = session.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, asked)
    deletable = session.allowed_names(Operation.DELETE, ResourceType.TOPIC, asked)
    denied_ids = {topic_id: name for topic_id, name in of_ids.items() if name not in deletable}
    denied = {n for n in names if n not in describable or (n not in deletable and image.topic(n) is not None)}
    results = [_denied(name if name in describable else None, i) for i, name in denied_ids.items()]
    results += [_denied(name, ZERO_UUID) for name in denied]
    kept = replace(
        request,
        topic_names=[name for name in request.topic_names if name not in denied],
        topics=[
            s
            for s in states
            if not (s.name is None and s.topic_id in denied_ids)
            and not (s.topic_id == ZERO_UUID and s.name is not None and s.name in denied)
        ],
    )
    return Checked(kept, adding("responses", results))


def _denied(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=WORDS[error])


ENDPOINT: ApiEndpoint[DeleteTopicsRequest, DeleteTopicsResponse] = ApiEndpoint(
    authorization=(Split("DELETE on CLUSTER, or DESCRIBE and DELETE on each TOPIC", _authorized),),
    place=ACTIVE_CONTROLLER,
    portionings=(
        Portioning(("topics",), ("responses",), TOGETHER, attrgetter("name", "topic_id")),
        Portioning(("topic_names",), ("responses",), TOGETHER),
    ),
    log_reserve=SMALL_RESERVE,
    strict_mutations_since=5,
)
