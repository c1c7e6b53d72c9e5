"""ShareFetch (key 78): records for a member of a share group, each acquired for a time.

Records not acknowledged before the acquisition lock ends are given to others, up to a number of deliveries.
Acknowledgements of earlier records come along. A share session (epoch 0 begins, -1 ends) lets only changes be named
(KIP-932).

Versions 1-2, all flexible. Additions by version:
- 2: how records are acquired, by batch or strictly by count (KIP-1206); renewing acknowledgements (KIP-1222)
"""

from __future__ import annotations

from ..schema import (
    BOOL,
    ERROR_TEXT,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Message,
    Records,
    Request,
    array,
    message,
    struct,
    wire,
)
from .acknowledgement_batches import AcknowledgementBatch
from .node_endpoints import NodeEndpoint
from .share_leaders import ShareLeaderIdAndEpoch


@struct
class ShareFetchPartition(Message):
    partition_index: int = wire(INT32)
    partition_max_bytes: int = wire(INT32, "0")
    acknowledgement_batches: list[AcknowledgementBatch] = wire(array(AcknowledgementBatch))


@struct
class ShareFetchTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ShareFetchPartition] = wire(array(ShareFetchPartition))


@struct
class ShareForgottenTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@message("1-2", flexible="0+", key=78)
class ShareFetchRequest(Request["ShareFetchResponse"]):
    group_id: str | None = wire(STRING, nullable="0+", default=None)
    member_id: str | None = wire(STRING, nullable="0+")
    share_session_epoch: int = wire(INT32)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=2147483647)
    max_records: int = wire(INT32, "1+")
    batch_size: int = wire(INT32, "1+")
    share_acquire_mode: int = wire(INT8, "2+")
    is_renew_ack: bool = wire(BOOL, "2+")
    topics: list[ShareFetchTopic] = wire(array(ShareFetchTopic))
    forgotten_topics_data: list[ShareForgottenTopic] = wire(array(ShareForgottenTopic))


@struct
class AcquiredRecords(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_count: int = wire(INT16)


@struct
class ShareFetchPartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    acknowledge_error_code: int = wire(INT16)
    acknowledge_error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    current_leader: ShareLeaderIdAndEpoch = wire(ShareLeaderIdAndEpoch)
    records: Records = wire(RECORDS, nullable="0")
    acquired_records: list[AcquiredRecords] = wire(array(AcquiredRecords))


@struct
class ShareFetchableTopicResponse(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ShareFetchPartitionData] = wire(array(ShareFetchPartitionData))


@message("1-2", flexible="0+", key=78)
class ShareFetchResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = wire(INT32, "1+")
    responses: list[ShareFetchableTopicResponse] = wire(array(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint))
