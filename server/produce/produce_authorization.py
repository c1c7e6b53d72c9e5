"""The topics of a Produce that its client may not write to."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from ...metadata.acls import Operation, ResourceType
from .parked_produce import FIRST_VERSION_WITH_TOPIC_IDS

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ..network.call import Call
    from ..security.authorization.authorization import Authorization
    from ..security.authorization.sessions import AuthorizationSession

#: For topics by name or by id.
NONE_DENIED: Set[Any] = frozenset()


def surely_writes(authorization: Authorization, call: Call) -> bool:
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


def denied_topics(session: AuthorizationSession, call: Call, image: MetadataImage) -> Set[Any]:
    """Returns the names, from version 13 on the ids, of the topics that the client may not write to. Unknown ids are not
    among them.
    """
    if call.version < FIRST_VERSION_WITH_TOPIC_IDS:
        named: list[tuple[Any, str]] = [(topic.name, topic.name) for topic in call.request.topic_data]
    else:
        known = {topic.topic_id: image.topic_by_id(topic.topic_id) for topic in call.request.topic_data}
        named = [(topic_id, topic.name) for topic_id, topic in known.items() if topic is not None]
    allowed = session.allowed_names(Operation.WRITE, ResourceType.TOPIC, (name for _, name in named))
    for key, name in named:
        if name in allowed:
            session.may_write(key)
    return {key for key, name in named if name not in allowed}
