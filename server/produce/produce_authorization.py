"""The topics of a Produce that its client may not write to."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Union

from ...metadata.acls import Operation, ResourceType
from ...protocol.messages.produce import TopicProduceData

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...protocol.messages.produce import ProduceRequest
    from ..access.authorization.authorization import Authorization
    from ..access.authorization.sessions import AuthorizationSession
    from ..network.call import Call

#: A topic as a request names it: by name, or by id.
TopicKey = Union[str, bytes]
NONE_DENIED: Set[TopicKey] = frozenset()
WITH_TOPIC_IDS = TopicProduceData.versions_with("topic_id")


def is_write_cached_as_allowed(authorization: Authorization, call: Call[ProduceRequest]) -> bool:
    """Returns whether cached decisions allow the client to write to all topics. False may also mean an outdated cache.

    Every Produce calls it. So it reads the level of the audit log once for 64 decisions only.
    """
    session: AuthorizationSession | None = call.connection.authorization
    if session is None or session.written_version != authorization.version:
        return False
    written, topics = session.written, call.request.topic_data
    for topic in topics:
        if (topic.name or topic.topic_id) not in written:
            return False
    if authorization.allowed & 63 < len(topics) and authorization.logs_allowed():
        session.written.clear()
        return False
    authorization.allowed += len(topics)
    return True


def denied_topics(session: AuthorizationSession, call: Call[ProduceRequest], image: MetadataImage) -> Set[TopicKey]:
    """Returns the names, from version 13 on the ids, of the topics that the client may not write to. Unknown ids are not
    among them.
    """
    if call.version not in WITH_TOPIC_IDS:
        named: list[tuple[TopicKey, str]] = [(topic.name, topic.name) for topic in call.request.topic_data]
    else:
        known = {topic.topic_id: image.topic_by_id(topic.topic_id) for topic in call.request.topic_data}
        named = [(topic_id, topic.name) for topic_id, topic in known.items() if topic is not None]
    allowed = session.allowed_names(Operation.WRITE, ResourceType.TOPIC, (name for _, name in named))
    for key, name in named:
        if name in allowed:
            session.may_write(key)
    return {key for key, name in named if name not in allowed}
