"""One member of a share group, as replayed from the log. Partitions are never revoked, so members have no states."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....protocol.internal.share_group_records import ShareGroupMemberMetadataValue
from ..consumer.member import Partitions
from ..member_epochs import JOIN_EPOCH

#: Metadata of a member before its first heartbeat.
EMPTY_METADATA = ShareGroupMemberMetadataValue(rack_id=None)


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    metadata: ShareGroupMemberMetadataValue
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)
