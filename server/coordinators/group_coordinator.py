"""The place of requests to the coordinators of groups. Its import is that of their shards, which many brokers never need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ...metadata.acls import Operation, ResourceType
from ...metadata.features import GROUP_VERSION, STREAMS_VERSION
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..access.authorization.requirements import Each, authorized_operations
from ..network.api_endpoint import Place
from ..network.call import Call
from . import group_shard_driver
from . import group_shard_driver as group_configs
from .shard_driver import gather

if TYPE_CHECKING:
    from ..access.subsystem import AccessSubsystem
    from ..config.broker_config import BrokerConfig
    from ..runtime.subsystem import MetadataCache
    from .subsystem import CoordinatorsSubsystem

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (group_configs, group_shard_driver)
#: The level of `group.version` that enables the groups of KIP-848.
_NEEDED_LEVEL = 1


class GroupServices(Protocol):
    """The parts of a broker that these handlers use."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def coordinators(self) -> CoordinatorsSubsystem: ...
    @property
    def access(self) -> AccessSubsystem: ...


def to_coordinator(services: GroupServices, call: Call) -> Message | None:
    """Has the coordinator of the group answer."""
    services.coordinators.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None


#: For requests about one group.
GROUP_COORDINATOR = Place("the coordinator of the group in `group_id`", to_coordinator)
#: For requests about several groups, which may be of different shards.
GROUP_COORDINATORS = Place("the coordinators of the groups that the request names, on the node that takes it")


def consumer_groups_precondition(services: GroupServices, call: Call) -> ErrorCode:
    """Returns UNSUPPORTED_VERSION unless `group.version` and `group.coordinator.rebalance.protocols` enable the groups of
    KIP-848.
    """
    if services.metadata.image.features.level(GROUP_VERSION) < _NEEDED_LEVEL:
        return ErrorCode.UNSUPPORTED_VERSION
    is_on = "consumer" in services.config.get("group.coordinator.rebalance.protocols")
    return ErrorCode.NONE if is_on else ErrorCode.UNSUPPORTED_VERSION


def streams_groups_precondition(services: GroupServices, call: Call) -> ErrorCode:
    """Returns UNSUPPORTED_VERSION unless the broker's configuration and the cluster's features enable streams groups."""
    protocols = {name.lower() for name in services.config.get("group.coordinator.rebalance.protocols")}
    is_on = "streams" in protocols and services.metadata.image.features.level(STREAMS_VERSION) > 0
    return ErrorCode.NONE if is_on else ErrorCode.UNSUPPORTED_VERSION


# ---- responses about topics, some of which were made before the group was asked


class TopicResponse(Protocol):
    name: str
    topic_id: bytes
    partitions: list[Any]


Response = TypeVar("Response", bound=TopicResponse)


def merged(error_results: Iterable[Response], decided: Iterable[Response]) -> list[Response]:
    """Joins the results of a topic of which some partitions were rejected before."""
    results = {(topic.topic_id, topic.name): topic for topic in error_results}
    for topic in decided:
        known = results.setdefault((topic.topic_id, topic.name), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(results.values())


# ---- descriptions of groups

#: Groups that the client may describe, and the topics that a description names.
DESCRIBED_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
NAMED_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
#: Kafka's words.
HAS_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class HiddenTopics(NamedTuple):
    """The reason that hides a group: it names topics that the client may not describe. `words`: the error message."""

    topics_of: Callable[[Any], Iterable[str]]
    words: str


def describe(
    services: GroupServices,
    call: Call,
    group_ids: Iterable[str],
    question: Callable[[list[str]], Message],
    response: Callable[..., Message],
    rejected: Callable[..., Any],
    first: Iterable[Any] = (),
    hidden: HiddenTopics | None = None,
) -> None:
    """Scatters the request to the shards and gathers one response. `question` is the request for some of the groups;
    `first` are descriptions that need no shard. `rejected`: the class of a description.
    """
    groups = services.coordinators.groups
    asked = list(group_ids)
    denied = DESCRIBED_GROUPS.denied(services.access.authorizer, call, asked)
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    unseen = [rejected(group_id=group_id, error_code=error) for group_id in asked if group_id in denied]

    def reply(responses: list[Any]) -> None:
        described = [group for one in responses for group in one.groups]
        for group in described if call.request.include_authorized_operations else ():
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    services.access.authorizer, call, ResourceType.GROUP, group.group_id
                )
        if hidden is not None and services.access.authorizer is not None:
            described = _without_hidden(services, call, described, rejected, hidden)
        call.reply(response(groups=[*first, *unseen, *described]))

    permitted = [group_id for group_id in asked if group_id not in denied]
    gather(
        [partial(groups.submit, ids[0], question(ids), call.version, call) for ids in groups.by_partition(permitted)],
        reply,
    )


def _without_hidden(
    services: GroupServices, call: Call, described: list[Any], rejected: Callable[..., Any], hidden: HiddenTopics
) -> list[Any]:
    named = [set(hidden.topics_of(group)) for group in described]
    denied = NAMED_TOPICS.denied(services.access.authorizer, call, set().union(*named))
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        group
        if denied.isdisjoint(names)
        else rejected(group_id=group.group_id, error_code=error, error_message=hidden.words)
        for group, names in zip(described, named, strict=True)
    ]
