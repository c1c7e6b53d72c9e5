"""Share groups (KIP-932): any member may acquire any record, and acknowledges each."""

from __future__ import annotations

from functools import partial

from ....protocol.internal.share_group_records import ShareGroupMetadataKey
from ....protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ....protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ....protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ..assigned_group import replays
from ..kind import Kind
from ..target_epochs import sessions
from . import heartbeat, offset_requests
from .commits import RULES
from .describe import describe_groups
from .error_responses import ERROR_RESPONSES
from .group import ShareGroup
from .initialization import initialized, metadata_changed
from .persister_requests import DeletionOfGroups, InitializedPartitions, StatesDeleted, StatesInitialized
from .record_types import RECORD_TYPES
from .settings import session_timeout_ms
from .targets import expired, restore
from .writing import delete_group

KIND = Kind(
    name=ShareGroup.kind,
    operations={
        ShareGroupHeartbeatRequest: heartbeat.heartbeat,
        ShareGroupDescribeRequest: describe_groups,
        AlterShareGroupOffsetsRequest: offset_requests.alter_offsets,
        DeleteShareGroupOffsetsRequest: offset_requests.delete_offsets,
        StatesInitialized: initialized,
        StatesDeleted: offset_requests.deleted,
        DeletionOfGroups: offset_requests.delete_groups,
        InitializedPartitions: offset_requests.initialized_partitions,
    },
    replays=replays(ShareGroup, ShareGroupMetadataKey),
    record_types=RECORD_TYPES,
    error_responses=ERROR_RESPONSES,
    offsets=RULES,
    restore=restore,
    sessions=partial(sessions, timeout_ms=session_timeout_ms),
    expired=expired,
    delete=delete_group,
    validate_deletion=ShareGroup.validate_deletion,
    metadata_changed=metadata_changed,
    expires=False,
    replaceable_when_empty=False,
)
