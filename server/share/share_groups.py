"""Share groups at this broker: checks that requests about them share, and the operations on a group's state.

- `share_groups_precondition` and the checks after it; `SHARE_STATE_COORDINATOR`, the place of requests to the persister.
- `LatestOffsets`: first and end offsets of partitions that any broker leads.
- `ShareGroupStates`: operations that involve both the group's shard and the persister.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...coordinator.groups.share import kind
from ...coordinator.groups.share.heartbeat import MAX_MEMBER_ID_LENGTH
from ...coordinator.groups.share.offset_requests import (
    DeletionOfGroups,
    DeletionsOfStates,
    StatesDeleted,
    StatesInitialized,
)
from ...coordinator.groups.streams import kind as streams_kind
from ...metadata.acls import Operation, ResourceType
from ...metadata.features import SHARE_VERSION
from ...metadata.image import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ...protocol.schema import Message
from ..access.authorization.requirements import Each
from ..coordinators import share_state_driver
from ..coordinators.shard_driver import gather
from ..coordinators.share_state_driver import ASKER, Persister, ShareStateDriver
from ..network.api_endpoint import Place

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..access.subsystem import AccessSubsystem
    from ..config.listeners import Endpoint
    from ..controller.cluster_view import Leaders
    from ..coordinators.coordinator_driver import GroupDriver
    from ..network.call import Call
    from ..partitions.partitions import Partitions
    from ..runtime.subsystem import Lazy, MetadataCache


# Checks that requests about share groups share.


#: Imported with this file, on a thread: the event loop imports none of it later. A shard takes all kinds of groups that it
#: does not know at once (`KINDS.load_all`).
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


def names_member(call: Call) -> bool:
    """Returns whether a ShareFetch or ShareAcknowledge names a group and a member as it must."""
    member_id: str | None = call.request.member_id
    return call.request.group_id is not None and bool(member_id) and len(member_id or "") <= MAX_MEMBER_ID_LENGTH


def denied_topics(services: ShareServices, call: Call, topic_ids: Iterable[bytes]) -> Set[bytes]:
    """Returns the ids of the topics that the client may not read. Unknown ids are not among them."""
    if services.access.authorizer is None:
        return frozenset()
    image = services.metadata.image
    names = {i: topic.name for i in set(topic_ids) if (topic := image.topic_by_id(i)) is not None}
    denied = READ_TOPICS.denied(services.access.authorizer, call, names.values())
    return {topic_id for topic_id, name in names.items() if name in denied}


def to_state_coordinator(services: ShareServices, call: Call) -> Message | None:
    """Has the shards of this broker answer the request of another broker."""
    share_state_driver.submit_here(services.share.states(), call.request, call.version, call, call.reply)
    return None


#: For requests of brokers to the persister of share groups.
SHARE_STATE_COORDINATOR = Place("the coordinator of each share partition's state", to_state_coordinator)


# Looks up the first and end offsets of partitions for consumers, with one request to each leader.


#: Timestamps of ListOffsets.
EARLIEST, LATEST = -2, -1
_CONSUMER = -1
_REQUEST_TIMEOUT_MS = 30_000


class End(NamedTuple):
    """The end, or the first offset, of a partition. `offset` is valid only without an error."""

    error: int
    offset: int = -1


Ends = dict[TopicPartition, End]


class LatestOffsets:
    """Looks up the high watermarks or first offsets of partitions, led here or by other brokers."""

    def __init__(self, partitions: Partitions, leaders: Leaders, peers: Lazy[Peers]) -> None:
        self._partitions = partitions
        self._leaders = leaders
        self._peers = peers

    def look_up(
        self, wanted: Iterable[TopicPartition], done: Callable[[Ends], None], *, timestamp: int = LATEST
    ) -> None:
        """Looks up the high watermarks, or the first offsets for EARLIEST. `done` gets the offset or the error of each
        partition, immediately if this broker leads all of them.
        """
        found: Ends = {}
        remote: dict[Endpoint, list[TopicPartition]] = {}
        for partition in wanted:
            hosted, leader = self._partitions.get(partition), self._leaders.other_leader(*partition)
            if hosted is not None and hosted.is_leader:
                offset = hosted.high_watermark if timestamp == LATEST else hosted.log.log_start_offset
                found[partition] = End(ErrorCode.NONE, offset)
            elif leader is not None:
                remote.setdefault(leader, []).append(partition)
            else:
                found[partition] = End(ErrorCode.LEADER_NOT_AVAILABLE)

        def answered(responses: list[Ends]) -> None:
            for response in responses:
                found.update(response)
            done(found)

        gather([partial(self._ask, leader, led, timestamp) for leader, led in remote.items()], answered)

    def _ask(self, leader: Endpoint, led: list[TopicPartition], timestamp: int, done: Callable[[Ends], None]) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in led:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
        request = ListOffsetsRequest(replica_id=_CONSUMER, topics=list(topics.values()), timeout_ms=_REQUEST_TIMEOUT_MS)

        def answered(response: ListOffsetsResponse | None) -> None:
            ends = dict.fromkeys(led, End(ErrorCode.NETWORK_EXCEPTION))
            for topic in () if response is None else response.topics:
                ends |= {(topic.name, one.partition_index): End(one.error_code, one.offset) for one in topic.partitions}
            done(ends)

        self._peers().send(leader, request, answered, timeout_ms=_REQUEST_TIMEOUT_MS, purpose="latest offsets")


# Operations that involve both the group's shard and the persister, in sequence.
#
# The shard returns the request for the persister (coordinator/groups/share/offset_requests.py), and the result goes back
# to the shard. A lost step, for example after a failure of this broker, is repeated by the next heartbeat or the client's
# retry.


#: The version of requests that only this broker creates.
OWN_VERSION = 0


def nobody(_: object) -> None:
    """Ignores the response."""


class ShareGroupStates:
    """Initializes and deletes the persisted states of share groups, and informs the groups' shards."""

    def __init__(self, groups: GroupDriver, persister: Lazy[Persister]) -> None:
        self._groups = groups
        self._persister = persister

    def initialize(
        self,
        request: InitializeShareGroupStateRequest,
        done: Callable[[InitializeShareGroupStateResponse], None] = nobody,
    ) -> None:
        """Has the persister initialize states and informs the group. `done` gets the persister's response."""
        self._persister().ask(request, partial(self._initialized, request.group_id, done))

    def _initialized(
        self,
        group_id: str,
        done: Callable[[InitializeShareGroupStateResponse], None],
        response: InitializeShareGroupStateResponse,
    ) -> None:
        partitions = {r.topic_id: frozenset(p.partition for p in r.partitions) for r in response.results}
        has_failed = any(p.error_code for result in response.results for p in result.partitions)
        reported = StatesInitialized(group_id, partitions, has_failed)
        self._groups.submit(group_id, reported, OWN_VERSION, ASKER, lambda _: done(response))

    def delete(self, request: DeleteShareGroupStateRequest, done: Callable[[dict[bytes, int]], None]) -> None:
        """Has the persister delete the states of topics and informs the group of the deleted ones. `done` gets an error
        code for each.
        """
        self._persister().ask(request, partial(self._deleted, request.group_id, done))

    def _deleted(
        self, group_id: str, done: Callable[[dict[bytes, int]], None], response: DeleteShareGroupStateResponse
    ) -> None:
        errors = {r.topic_id: next((p.error_code for p in r.partitions if p.error_code), 0) for r in response.results}
        deleted = frozenset(topic_id for topic_id, error in errors.items() if not error)
        if deleted:
            reported = StatesDeleted(group_id, deleted)
            self._groups.submit(group_id, reported, OWN_VERSION, ASKER, lambda _: done(errors))
        else:
            done(errors)

    def delete_groups(self, group_ids: Iterable[str], done: Callable[[dict[str, int]], None]) -> None:
        """Deletes the states of share groups before the groups are deleted. `done` gets the groups that may not be
        deleted, with the reason.
        """
        groups = self._groups
        gather(
            [
                partial(groups.submit, ids[0], DeletionOfGroups(ids), OWN_VERSION, ASKER)
                for ids in groups.by_partition(group_ids)
            ],
            partial(self._delete_each, done),
        )

    def _delete_each(self, done: Callable[[dict[str, int]], None], decided: list[DeletionsOfStates]) -> None:
        rejected: dict[str, int] = {
            group: int(error) for deletions in decided for group, error in deletions.errors.items()
        }
        requests = {group: request for deletions in decided for group, request in deletions.requests.items()}

        def deleted(responses: list[DeleteShareGroupStateResponse]) -> None:
            for group_id, response in zip(requests, responses, strict=True):
                for result in response.results:
                    for partition in result.partitions:
                        if partition.error_code:
                            rejected[group_id] = partition.error_code
            done(rejected)

        gather([partial(self._persister().ask, request) for request in requests.values()], deleted)
