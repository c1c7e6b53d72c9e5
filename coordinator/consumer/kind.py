"""Consumer groups (KIP-848): the coordinator assigns, each member reconciles at its own pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ..kind import Kind
from . import commits, describe, heartbeat, replaying, targets, writing
from .group import ConsumerGroup

if TYPE_CHECKING:
    from ..state import ShardState


def _metadata_changed(state: ShardState, group: ConsumerGroup, topics: frozenset[str]) -> None:
    group.has_outdated_regexes = True
    if not topics.isdisjoint(group.subscribed_topics()):
        group.is_outdated = True


def _refuse_deletion(group: ConsumerGroup) -> ErrorCode:
    return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE


CONSUMER = Kind(
    name=ConsumerGroup.kind,
    operations={
        ConsumerGroupHeartbeatRequest: heartbeat.heartbeat,
        ConsumerGroupDescribeRequest: describe.describe,
    },
    replays=dict.fromkeys(replaying.KEYS, replaying.replay),
    offsets=commits.RULES,
    restore=targets.restore,
    expired=targets.expired,
    delete=writing.delete_group,
    refuse_deletion=_refuse_deletion,
    metadata_changed=_metadata_changed,
    joins=(ConsumerGroupHeartbeatRequest,),
)
