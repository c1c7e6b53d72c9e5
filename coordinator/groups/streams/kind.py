"""Streams groups (KIP-1071): the coordinator stores the application's topology, and assigns its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.internal.streams_group_records import StreamsGroupMetadataKey
from ....protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ....protocol.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ..base.assigned_group import replays
from ..base.kind import Kind
from . import commits, describe, description, error_responses, heartbeat, record_types, targets, writing
from .group import StreamsGroup

if TYPE_CHECKING:
    from ..base.state import ShardState


def _metadata_changed(state: ShardState, group: StreamsGroup, topics: frozenset[str]) -> None:
    if not topics.isdisjoint(group.required_topics()):
        group.is_outdated = True


def _delete(state: ShardState, group: StreamsGroup) -> None:
    description.deleted(state, group)
    writing.delete_group(state, group)


KIND = Kind(
    name=StreamsGroup.kind,
    operations={
        StreamsGroupHeartbeatRequest: heartbeat.heartbeat,
        StreamsGroupDescribeRequest: describe.describe,
        StreamsGroupTopologyDescriptionUpdateRequest: description.update,
    },
    replays=replays(StreamsGroup, StreamsGroupMetadataKey),
    record_types=record_types.RECORD_TYPES,
    error_responses=error_responses.ERROR_RESPONSES,
    offsets=commits.RULES,
    restore=targets.restore,
    expired=targets.expired,
    delete=_delete,
    validate_deletion=StreamsGroup.validate_deletion,
    metadata_changed=_metadata_changed,
)
