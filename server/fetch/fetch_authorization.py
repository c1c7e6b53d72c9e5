"""The topics of a Fetch that its client may not read."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from ...metadata.acls import Operation, ResourceType

if TYPE_CHECKING:
    from ..network.call import Call
    from ..runtime.metadata_cache import MetadataCache
    from ..security.authorization.authorization import Authorization
    from .fetch_session import FetchContext

#: For topics by name or by id.
NONE_DENIED: Set[Any] = frozenset()


class _AllTopics(Set[Any]):
    """All topics: a follower without CLUSTER_ACTION may read none."""

    def __contains__(self, topic: object) -> bool:
        return True

    def __iter__(self) -> Any:
        raise NotImplementedError("there is no list of all topics")

    def __len__(self) -> int:
        return 1


_ALL_DENIED = _AllTopics()


class FetchAuthorization:
    def __init__(self, authorizer: Authorization, metadata: MetadataCache) -> None:
        self._authorizer = authorizer
        self._metadata = metadata

    def denied(self, call: Call, context: FetchContext, *, is_follower: bool) -> Set[Any]:
        """Returns the names or ids of the topics that the client may not read. Unknown ids are not among them."""
        session = self._authorizer.session(call)
        if is_follower:
            return NONE_DENIED if session.allows_on_cluster(Operation.CLUSTER_ACTION) else _ALL_DENIED
        counts: dict[Any, int] = {}
        for topic, _ in context.partitions:
            counts[topic] = counts.get(topic, 0) + 1
        denied: set[Any] = set()
        for topic, count in counts.items():
            name = topic
            if context.uses_topic_ids:
                found = self._metadata.image.topic_by_id(topic)
                if found is None:
                    continue
                name = found.name
            if not session.allows(Operation.READ, ResourceType.TOPIC, name, count=count):
                denied.add(topic)
        return denied
