"""Checks that requests about share groups share, and the place of requests to the persister."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Protocol

from ...coordinator.groups.share import kind
from ...coordinator.groups.share.validation import MAX_MEMBER_ID_LENGTH
from ...coordinator.groups.streams import kind as streams_kind
from ...metadata.acls import Operation, ResourceType
from ...metadata.features import SHARE_VERSION
from ...protocol.errors import ErrorCode
from ..access.authorization.requirements import Each
from ..coordinators import persister_requests
from ..network.api_endpoint import Place

if TYPE_CHECKING:
    from ...coordinator.share_state_responses import ShareStateRequest
    from ...protocol.messages.share_acknowledge import ShareAcknowledgeRequest
    from ...protocol.messages.share_fetch import ShareFetchRequest
    from ..access.subsystem import AccessSubsystem
    from ..coordinators.share_state_driver import ShareStateDriver
    from ..network.call import Call
    from ..runtime.lazy import Lazy
    from ..runtime.metadata_cache import MetadataCache

#: Imported with this file, on a thread: the event loop imports none of it later. A shard takes all kinds of groups that it
#: does not know at once (`Kinds.load_all`).
PRELOADED = (kind, streams_kind)
#: The topics of a member.
READ_TOPICS = Each(Operation.READ, ResourceType.TOPIC)


class ShareStates(Protocol):
    """The shards of share partitions' states: the part of the subsystem that these functions use."""

    states: Lazy[ShareStateDriver]


class ShareServices(Protocol):
    """The parts of a broker that these functions use."""

    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def access(self) -> AccessSubsystem: ...
    @property
    def share(self) -> ShareStates: ...


def share_groups_precondition(services: ShareServices, call: Call) -> ErrorCode:
    """Returns UNSUPPORTED_VERSION unless the finalized features enable share groups."""
    return ErrorCode.NONE if are_enabled(services) else ErrorCode.UNSUPPORTED_VERSION


def are_enabled(services: ShareServices) -> bool:
    return services.metadata.image.features.level(SHARE_VERSION) > 0


def names_member(call: Call[ShareFetchRequest] | Call[ShareAcknowledgeRequest]) -> bool:
    """Returns whether a ShareFetch or ShareAcknowledge names a group and a member as it must."""
    member_id = call.request.member_id
    return call.request.group_id is not None and bool(member_id) and len(member_id or "") <= MAX_MEMBER_ID_LENGTH


def denied_topics(services: ShareServices, call: Call, topic_ids: Iterable[bytes]) -> Set[bytes]:
    """Returns the ids of the topics that the client may not read. Unknown ids are not among them."""
    if services.access.authorizer is None:
        return frozenset()
    image = services.metadata.image
    names = {i: topic.name for i in set(topic_ids) if (topic := image.topic_by_id(i)) is not None}
    denied = READ_TOPICS.denied(services.access.authorizer, call, names.values())
    return {topic_id for topic_id, name in names.items() if name in denied}


def to_state_coordinator(services: ShareServices, call: Call[ShareStateRequest]) -> None:
    """Has the shards of this broker answer the request of another broker."""
    persister_requests.submit_here(services.share.states(), call.request, call.version, call, call.reply)


#: For requests of brokers to the persister of share groups.
SHARE_STATE_COORDINATOR: Place[ShareStateRequest] = Place(
    "the coordinator of each share partition's state", to_state_coordinator
)
