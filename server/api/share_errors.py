"""Errors of a whole ShareFetch or ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from ...coordinator.groups.share.heartbeat import MAX_MEMBER_ID_LENGTH
from ...metadata.acls import Operation, ResourceType
from ...metadata.features import SHARE_VERSION
from ...protocol.errors import ErrorCode
from .authorization import denied_names, denies

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import Services


def is_enabled(services: Services) -> bool:
    """Returns True if the finalized features enable share groups."""
    return services.metadata.image.features.level(SHARE_VERSION) > 0


def reject(services: Services, call: Call) -> ErrorCode:
    """Returns the error of a whole ShareFetch or ShareAcknowledge; NONE if it is valid. Kafka sends no error message
    for it.
    """
    if not is_enabled(services):
        return ErrorCode.UNSUPPORTED_VERSION
    group_id, member_id = call.request.group_id, call.request.member_id
    if group_id is not None and denies(services, call, Operation.READ, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if group_id is None or not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def denied_topics(services: Services, call: Call, topic_ids: Iterable[bytes]) -> Set[bytes]:
    """Returns the ids of the topics that the client may not read. Unknown ids are not among them."""
    if services.authorizer is None:
        return frozenset()
    image = services.metadata.image
    names = {i: topic.name for i in set(topic_ids) if (topic := image.topic_by_id(i)) is not None}
    denied = denied_names(services, call, Operation.READ, ResourceType.TOPIC, names.values())
    return {topic_id for topic_id, name in names.items() if name in denied}
