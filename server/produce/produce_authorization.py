"""The topics of a Produce that its client may not write to."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from ...metadata.acls import Operation, ResourceType
from .parked_produce import FIRST_VERSION_WITH_TOPIC_IDS

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ..network.call import Call
    from ..security.authorization.sessions import AuthorizationSession

_WRITE, _TOPIC = int(Operation.WRITE), int(ResourceType.TOPIC)
#: For topics by name or by id.
NONE_DENIED: Set[Any] = frozenset()


def denied_topics(session: AuthorizationSession, call: Call, image: MetadataImage) -> Set[Any]:
    """Returns the names, from version 13 on the ids, of the topics that the client may not write to. Unknown ids are not
    among them.
    """
    if call.version < FIRST_VERSION_WITH_TOPIC_IDS:
        names = [topic.name for topic in call.request.topic_data]
        if session.has_allowed(_WRITE, _TOPIC, names):
            return NONE_DENIED
        return set(names) - session.allowed_names(Operation.WRITE, ResourceType.TOPIC, names)
    known = {topic.topic_id: image.topic_by_id(topic.topic_id) for topic in call.request.topic_data}
    of_ids = {topic_id: topic.name for topic_id, topic in known.items() if topic is not None}
    if session.has_allowed(_WRITE, _TOPIC, list(of_ids.values())):
        return NONE_DENIED
    allowed = session.allowed_names(Operation.WRITE, ResourceType.TOPIC, of_ids.values())
    return {topic_id for topic_id, name in of_ids.items() if name not in allowed}
