"""Streams groups (KIP-1071): the coordinator knows the application's topology, and assigns its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from .. import kinds
from ..kind import Kind
from . import commits, describe, heartbeat, record_types, refused, replaying, targets, writing
from .group import StreamsGroup

if TYPE_CHECKING:
    from ..state import ShardState


def _metadata_changed(state: ShardState, group: StreamsGroup, topics: frozenset[str]) -> None:
    if not topics.isdisjoint(group.required_topics()):
        group.is_outdated = True


def _refuse_deletion(group: StreamsGroup) -> ErrorCode:
    return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE


STREAMS = Kind(
    name=StreamsGroup.kind,
    operations={
        StreamsGroupHeartbeatRequest: heartbeat.heartbeat,
        StreamsGroupDescribeRequest: describe.describe,
    },
    replays=dict.fromkeys(replaying.KEYS, replaying.replay),
    offsets=commits.RULES,
    restore=targets.restore,
    expired=targets.expired,
    delete=writing.delete_group,
    refuse_deletion=_refuse_deletion,
    metadata_changed=_metadata_changed,
)
kinds.add(STREAMS, record_types.RECORD_TYPES, refused.REFUSED)
