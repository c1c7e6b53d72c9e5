"""ShareAcknowledge (key 79): accepts, releases, rejects or renews records that were acquired.

Each partition answers for itself; INVALID_RECORD_STATE for records that the member does not hold (KIP-932).

Versions 1-2, all flexible. Additions by version:
- 2: renewing, and how long the lock then lasts (KIP-1222)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire
from .acknowledgement_batches import AcknowledgementBatch
from .node_endpoints import NodeEndpoint
from .share_leaders import ShareLeaderIdAndEpoch


@struct
class AcknowledgePartition(Message):
    partition_index: int = wire(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = wire(array(AcknowledgementBatch))


@struct
class AcknowledgeTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[AcknowledgePartition] = wire(array(AcknowledgePartition))


@message("1-2", flexible="0+", key=79)
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    group_id: str | None = wire(STRING, nullable="0+", default=None)
    member_id: str | None = wire(STRING, nullable="0+")
    share_session_epoch: int = wire(INT32)
    is_renew_ack: bool = wire(BOOL, "2+")
    topics: list[AcknowledgeTopic] = wire(array(AcknowledgeTopic))


@struct
class ShareAcknowledgePartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    current_leader: ShareLeaderIdAndEpoch = wire(ShareLeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ShareAcknowledgePartitionData] = wire(array(ShareAcknowledgePartitionData))


@message("1-2", flexible="0+", key=79)
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = wire(INT32, "2+")
    responses: list[ShareAcknowledgeTopicResponse] = wire(array(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint))
