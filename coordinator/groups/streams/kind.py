"""Streams groups (KIP-1071): the coordinator stores the application's topology, and assigns its tasks."""

from __future__ import annotations

from functools import partial

from ....protocol.internal.streams_group_records import StreamsGroupMetadataKey
from ....protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ....protocol.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ..assigned_group import replays
from ..kind import Kind
from ..shard_state import ShardState
from ..target_epochs import sessions
from . import description, heartbeat
from .commits import RULES
from .describe import describe_groups
from .group import StreamsGroup
from .record_types import RECORD_TYPES
from .settings import session_timeout_ms
from .targets import expired, restore
from .writing import delete_group


def _metadata_changed(state: ShardState, group: StreamsGroup, topics: frozenset[str]) -> None:
    if not topics.isdisjoint(group.required_topics()):
        group.is_outdated = True


def _delete(state: ShardState, group: StreamsGroup) -> None:
    description.deleted(state, group)
    delete_group(state, group)


KIND = Kind(
    name=StreamsGroup.kind,
    operations={
        StreamsGroupHeartbeatRequest: heartbeat.heartbeat,
        StreamsGroupDescribeRequest: describe_groups,
        StreamsGroupTopologyDescriptionUpdateRequest: description.update,
    },
    replays=replays(StreamsGroup, StreamsGroupMetadataKey),
    record_types=RECORD_TYPES,
    error_responses={},
    offsets=RULES,
    restore=restore,
    sessions=partial(sessions, timeout_ms=session_timeout_ms),
    expired=expired,
    delete=_delete,
    validate_deletion=StreamsGroup.validate_deletion,
    metadata_changed=_metadata_changed,
)
