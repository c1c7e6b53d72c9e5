"""Descriptions of groups: gathered from shards, without topics that the client may not see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, Union

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message, Request
from ..access.authorization.authorized_operations import authorized_operations
from ..access.authorization.requirements import Each
from ..network.call import Call
from .group_coordinator import GroupServices
from .scatter_and_gather import gather

if TYPE_CHECKING:
    from ...protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from ...protocol.messages.describe_groups import DescribeGroupsRequest
    from ...protocol.messages.share_group_describe import ShareGroupDescribeRequest
    from ...protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    #: A request for the descriptions of groups.
    DescriptionsRequest: TypeAlias = Union[
        ConsumerGroupDescribeRequest, DescribeGroupsRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest
    ]

#: Groups that the client may describe, and the topics that a description names.
DESCRIBED_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
NAMED_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
#: Kafka's words.
HAS_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class DescribedGroup(Protocol):
    """The description of a group, of whatever kind."""

    error_code: int
    authorized_operations: int

    @property
    def group_id(self) -> str: ...


Described = TypeVar("Described", bound=DescribedGroup)


class HiddenTopics(NamedTuple):
    """The reason that hides a group: it names topics that the client may not describe. `words`: the error message."""

    topics_of: Callable[[Any], Iterable[str]]
    words: str


def describe(
    services: GroupServices,
    call: Call[DescriptionsRequest],
    group_ids: Iterable[str],
    question: Callable[[list[str]], Request],
    response: Callable[..., Message],
    rejected: Callable[..., Described],
    first: Iterable[Described] = (),
    hidden: HiddenTopics | None = None,
) -> None:
    """Scatters the request to the shards and gathers one response. `question` is the request for some of the groups;
    `first` are descriptions that need no shard. `rejected`: the class of a description.
    """
    groups = services.coordinators.groups
    answered: Call = call
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
        answered.reply(response(groups=[*first, *unseen, *described]))

    permitted = [group_id for group_id in asked if group_id not in denied]
    gather(
        [partial(groups.submit, ids[0], question(ids), call.version, call) for ids in groups.by_partition(permitted)],
        reply,
    )


def _without_hidden(
    services: GroupServices,
    call: Call,
    described: list[Described],
    rejected: Callable[..., Described],
    hidden: HiddenTopics,
) -> list[Described]:
    named = [set(hidden.topics_of(group)) for group in described]
    denied = NAMED_TOPICS.denied(services.access.authorizer, call, set().union(*named))
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        group
        if denied.isdisjoint(names)
        else rejected(group_id=group.group_id, error_code=error, error_message=hidden.words)
        for group, names in zip(described, named, strict=True)
    ]
