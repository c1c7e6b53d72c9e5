"""Subscriptions by regular expression (RE2): each is resolved once per group and kept in a record (KIP-848).

Like Kafka, the coordinator resolves them after the response: a member with a new expression gets its topics with
its next heartbeat. `update_regex` runs before the member's reconciliation, `resolve_regexes` after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from enum import Enum
from typing import TYPE_CHECKING

from ....protocol.internal.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from ...patterns import compiled
from .group import ConsumerGroup
from .member import ConsumerMember
from .topics import matching_topics, metadata_hash
from .writing import write_epoch, write_regex

if TYPE_CHECKING:
    from ..shard_state import ShardState

#: The minimum interval between two resolutions of a group's expressions, however many topics are created.
RESOLUTION_INTERVAL_MS = 10_000
#: Returns those of some topics that the client of a request may describe.
Describable = Callable[[Collection[str]], Set[str]]


class RegexChange(Enum):
    NONE = 0
    #: The topics of the expression are not known yet.
    UNRESOLVED = 1
    RESOLVED = 2


def check_new_regex(group: ConsumerGroup, member: ConsumerMember, metadata: ConsumerGroupMemberMetadataValue) -> None:
    """Checks a new expression. Raises InvalidRegularExpression. An expression in use by the group is valid already."""
    regex = metadata.subscribed_topic_regex
    if regex and regex != member.metadata.subscribed_topic_regex and not group.is_regex_used(regex):
        compiled(regex)


def update_regex(
    state: ShardState, group: ConsumerGroup, before: ConsumerGroupMemberMetadataValue, regex: str | None
) -> RegexChange:
    """Handles a changed expression after the member's metadata is written. `before`: the previous metadata."""
    old = before.subscribed_topic_regex
    if old == regex:
        return RegexChange.NONE
    if old and old in group.regexes and not group.is_regex_used(old):
        write_regex(state, group.group_id, old, None)
    if regex:
        return RegexChange.RESOLVED if regex in group.regexes else RegexChange.UNRESOLVED
    return RegexChange.RESOLVED if old else RegexChange.UNRESOLVED


def resolve_regexes(
    state: ShardState, group: ConsumerGroup, now_ms: int, describable: Describable | None = None
) -> None:
    """Resolves new expressions, and all of them again after topics were created or deleted.

    As in Kafka, topics that the member of this heartbeat may not describe are left out, for all members.
    """
    if not group.regex_users:
        return  # the usual case
    used = set(group.regex_users)
    last_ms = max((value.timestamp for value in group.regexes.values()), default=None)
    if last_ms is not None and now_ms <= last_ms + RESOLUTION_INTERVAL_MS:
        return
    is_old = last_ms is not None and now_ms > last_ms + state.config.consumer_regex_refresh_interval_ms
    if used == group.regexes.keys() and not group.has_outdated_regexes and not is_old:
        return
    group.has_outdated_regexes = False
    is_changed = False
    for regex in sorted(used):
        topics = matching_topics(state.image, regex)
        if describable is not None:
            allowed = describable(topics)
            topics = [topic for topic in topics if topic in allowed]
        known = group.regexes.get(regex)
        is_changed |= (known.topics if known is not None else []) != topics
        value = ConsumerGroupRegularExpressionValue(topics=topics, version=max(state.image.offset, 0), timestamp=now_ms)
        write_regex(state, group.group_id, regex, value)
    digest = metadata_hash(state.image, group.subscribed_topics())
    if is_changed or digest != group.metadata_hash:
        write_epoch(state, group.group_id, group.epoch + 1, digest)
        state.counters.consumer_rebalances += 1


def unused_regexes(group: ConsumerGroup) -> list[str]:
    return [regex for regex in group.regexes if not group.is_regex_used(regex)]
