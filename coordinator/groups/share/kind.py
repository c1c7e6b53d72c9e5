"""Share groups (KIP-932): any member may acquire any record, and acknowledges each."""

from __future__ import annotations

from ....protocol.internal.share_group_records import ShareGroupMetadataKey
from ....protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ....protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ....protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ..base.assigned_group import replays
from ..base.kind import Kind
from . import (
    commits,
    describe,
    error_responses,
    heartbeat,
    initializing,
    offset_requests,
    record_types,
    targets,
    writing,
)
from .group import ShareGroup
from .requests import DeletionOfGroups, InitializedPartitions, StatesDeleted, StatesInitialized

KIND = Kind(
    name=ShareGroup.kind,
    operations={
        ShareGroupHeartbeatRequest: heartbeat.heartbeat,
        ShareGroupDescribeRequest: describe.describe,
        AlterShareGroupOffsetsRequest: offset_requests.alter_offsets,
        DeleteShareGroupOffsetsRequest: offset_requests.delete_offsets,
        StatesInitialized: initializing.initialized,
        StatesDeleted: offset_requests.deleted,
        DeletionOfGroups: offset_requests.delete_groups,
        InitializedPartitions: offset_requests.initialized_partitions,
    },
    replays=replays(ShareGroup, ShareGroupMetadataKey),
    record_types=record_types.RECORD_TYPES,
    error_responses=error_responses.ERROR_RESPONSES,
    offsets=commits.RULES,
    restore=targets.restore,
    expired=targets.expired,
    delete=writing.delete_group,
    validate_deletion=ShareGroup.validate_deletion,
    metadata_changed=initializing.metadata_changed,
    expires=False,
    replaceable_when_empty=False,
)
