"""The common part of the Describe APIs of groups: scatters the request to the shards and gathers one response."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..network.call import Call
from ..runtime.gather import gather
from ..services import Services
from .authorization import authorized_operations, denied_names

#: Kafka's words.
HAS_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class HiddenTopics(NamedTuple):
    """The reason that hides a group: it names topics that the client may not describe. `words`: the error message."""

    topics_of: Callable[[Any], Iterable[str]]
    words: str


def describe(
    services: Services,
    call: Call,
    group_ids: Iterable[str],
    question: Callable[[list[str]], Message],
    response: Callable[..., Message],
    rejected: Callable[..., Any],
    first: Iterable[Any] = (),
    hidden: HiddenTopics | None = None,
) -> None:
    """`question` is the request for some of the groups; `first` are descriptions that need no shard. `rejected`:
    the class of a description.
    """
    groups = services.groups
    asked = list(group_ids)
    denied = denied_names(services, call, Operation.DESCRIBE, ResourceType.GROUP, asked)
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    unseen = [rejected(group_id=group_id, error_code=error) for group_id in asked if group_id in denied]

    def reply(answers: list[Any]) -> None:
        described = [group for answer in answers for group in answer.groups]
        for group in described if call.request.include_authorized_operations else ():
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(services, call, ResourceType.GROUP, group.group_id)
        if hidden is not None and services.authorizer is not None:
            described = _without_hidden(services, call, described, rejected, hidden)
        call.reply(response(groups=[*first, *unseen, *described]))

    permitted = [group_id for group_id in asked if group_id not in denied]
    gather(
        [partial(groups.submit, ids[0], question(ids), call.version, call) for ids in groups.by_partition(permitted)],
        reply,
    )


def _without_hidden(
    services: Services, call: Call, described: list[Any], rejected: Callable[..., Any], hidden: HiddenTopics
) -> list[Any]:
    named = [set(hidden.topics_of(group)) for group in described]
    denied = denied_names(services, call, Operation.DESCRIBE, ResourceType.TOPIC, set().union(*named))
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        group
        if denied.isdisjoint(names)
        else rejected(group_id=group.group_id, error_code=error, error_message=hidden.words)
        for group, names in zip(described, named, strict=True)
    ]
