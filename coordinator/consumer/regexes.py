"""Subscriptions by regular expression: each is resolved once for the whole group, and kept in a record (KIP-848).

Kafka resolves them in another thread and tells the group afterwards; here it is done before the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.internal.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from . import writing
from .group import ConsumerGroup
from .member import Member
from .topics import matching_topics

if TYPE_CHECKING:
    from ..state import ShardState


class Resolved(NamedTuple):
    """Regular expressions to record; None for one that nobody uses any more."""

    changes: dict[str, ConsumerGroupRegularExpressionValue | None]

    def write(self, state: ShardState, group_id: str) -> None:
        for regex, value in self.changes.items():
            writing.write_regex(state, group_id, regex, value)


def update_regex(
    state: ShardState, group: ConsumerGroup, member: Member, metadata: ConsumerGroupMemberMetadataValue, now: int
) -> Resolved:
    """Raises InvalidRegularExpression, before anything is changed."""
    changes: dict[str, ConsumerGroupRegularExpressionValue | None] = {}
    regex, before = metadata.subscribed_topic_regex, member.metadata.subscribed_topic_regex
    if before and before != regex and before in group.regexes and not is_used(group, before, member.member_id):
        changes[before] = None
    asked = {regex} if regex and regex not in group.regexes else set()
    if group.is_outdated:
        asked |= {known for known in group.regexes if known not in changes}
    for each in sorted(asked):
        topics = matching_topics(state.image, each)
        known = group.regexes.get(each)
        if known is None or known.topics != topics:
            changes[each] = ConsumerGroupRegularExpressionValue(
                topics=topics, version=max(state.image.offset, 0), timestamp=now
            )
    return Resolved(changes)


def is_used(group: ConsumerGroup, regex: str, besides: str) -> bool:
    return any(
        m.metadata.subscribed_topic_regex == regex for member_id, m in group.members.items() if member_id != besides
    )


def unused_regexes(group: ConsumerGroup) -> list[str]:
    used = {member.metadata.subscribed_topic_regex for member in group.members.values()}
    return [regex for regex in group.regexes if regex not in used]
