"""Produce (key 0): appends record batches to partitions.

Each partition carries one batch of format 2, which is validated whole: it is appended whole or not at all. `acks` 0
gets no response, 1 a response after the leader's append, -1 one after every in-sync replica has it (NOT_ENOUGH_REPLICAS
before that is tried). Idempotent producers (KIP-98) get for a batch sent twice the response of the first time, for a
gap OUT_OF_ORDER_SEQUENCE_NUMBER. Versions 0-2 are gone since 4.0 but advertised, as older librdkafka enables
compression by that.

Versions 3-13, flexible from 9. Additions by version:
- 4: may answer KAFKA_STORAGE_ERROR
- 5: log start offset in the response
- 7: zstd is allowed (KIP-110)
- 8: which records were at fault, and why (KIP-467)
- 10: the current leader and its address after NOT_LEADER_OR_FOLLOWER (KIP-951)
- 11: may answer TRANSACTION_ABORTABLE (KIP-890)
- 12: inside a transaction it also adds the partition to it (KIP-890, part 2)
- 13: topics by id instead of name; UNKNOWN_TOPIC_ID (KIP-516)
"""

from __future__ import annotations

from ..schema import (
    ERROR_TEXT,
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
from .leader_id_and_epoch import LeaderIdAndEpoch
from .node_endpoints import NodeEndpoint


@struct
class PartitionProduceData(Message):
    index: int = wire(INT32)
    records: Records = wire(RECORDS, nullable="0+")


@struct
class TopicProduceData(Message):
    name: str = wire(STRING, "0-12")
    topic_id: bytes = wire(UUID, "13+")
    partition_data: list[PartitionProduceData] = wire(array(PartitionProduceData))


@message("3-13", flexible="9+", key=0)
class ProduceRequest(Request["ProduceResponse"]):
    transactional_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: list[TopicProduceData] = wire(array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage(Message):
    batch_index: int = wire(INT32, "8+")
    batch_index_error_message: str | None = wire(ERROR_TEXT, "8+", nullable="8+", default=None)


@struct
class PartitionProduceResponse(Message):
    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, "2+", default=-1)
    log_start_offset: int = wire(INT64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire(array(BatchIndexAndErrorMessage), "8+")
    error_message: str | None = wire(ERROR_TEXT, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse(Message):
    name: str = wire(STRING, "0-12")
    topic_id: bytes = wire(UUID, "13+")
    partition_responses: list[PartitionProduceResponse] = wire(array(PartitionProduceResponse))


@message("3-13", flexible="9+", key=0)
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = wire(array(TopicProduceResponse))
    throttle_time_ms: int = wire(INT32, "1+")
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "10+", tag=0)
