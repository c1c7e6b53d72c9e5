"""The topics of a Fetch that its client may not read."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ..runtime.parted_set import PartedSet
from ..runtime.sliced_work import run_to_completion
from .fetched_partition import Topic

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..access.authorization.authorization import Authorization
    from ..access.subsystem import AccessSubsystem
    from ..network.call import Call
    from ..runtime.metadata_cache import MetadataCache
    from ..runtime.sliced_work import Steps
    from .fetch_context import FetchContext

#: For topics by name or by id.
NONE_DENIED: Set[Topic] = frozenset()

#: Topics that are decided about in one step.
_DECIDED_AT_ONCE = 64


class _AllTopics(Set[Topic]):
    """All topics: a follower without CLUSTER_ACTION may read none."""

    def __contains__(self, topic: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Topic]:
        raise NotImplementedError("there is no list of all topics")

    def __len__(self) -> int:
        return 1


_ALL_DENIED = _AllTopics()


class FetchAuthorization:
    def __init__(self, authorizer: Authorization, metadata: MetadataCache) -> None:
        self._authorizer = authorizer
        self._metadata = metadata

    def denied(self, call: Call[FetchRequest], context: FetchContext, *, is_follower: bool) -> Set[Topic]:
        """Returns the names or ids of the topics that the client may not read. Unknown ids are not among them."""
        return run_to_completion(self.denied_in_steps(call, context, is_follower=is_follower))

    def denied_in_steps(
        self, call: Call[FetchRequest], context: FetchContext, *, is_follower: bool
    ) -> Steps[Set[Topic]]:
        """Decides as `denied` does, some topics in each step. Each denial is noted in the audit log, which takes 10 us."""
        if is_follower:
            return (
                NONE_DENIED
                if self._authorizer.session(call).allows_on_cluster(Operation.CLUSTER_ACTION)
                else _ALL_DENIED
            )
        denied: PartedSet[Topic] = PartedSet()
        version = self._authorizer.version
        counted = iter((yield from context.topics_in_steps()))
        while some := list(islice(counted, _DECIDED_AT_ONCE)):
            session = self._authorizer.session(call)  # between two steps it may be of another request
            for topic, count in some:
                name = topic if isinstance(topic, str) else self._name_of(topic)
                if name is not None and not session.allows(Operation.READ, ResourceType.TOPIC, name, count=count):
                    denied.add(topic)
            yield
        if context.session is not None:
            context.session.decided_version = version
        return denied

    def is_quick(self, context: FetchContext) -> bool:
        """Returns whether it takes less than a step to decide about the topics of a session: they are few, and the rules are
        those of its last request, so that no idle partition changes.
        """
        session = context.session
        return (
            session is not None
            and session.topics is not None
            and len(session.topics) <= _DECIDED_AT_ONCE
            and session.decided_version == self._authorizer.version
            and self._authorizer.keeps_decisions
        )

    def _name_of(self, topic_id: bytes) -> str | None:
        found = self._metadata.image.topic_by_id(topic_id)
        return None if found is None else found.name


def fetch_authorization(access: AccessSubsystem, metadata: MetadataCache) -> FetchAuthorization | None:
    return None if access.authorizer is None else FetchAuthorization(access.authorizer, metadata)
