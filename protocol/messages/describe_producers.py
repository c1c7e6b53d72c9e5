"""DescribeProducers (key 61): the active producers of a partition.

Id, epoch, last sequence and timestamp, and where an open transaction begins: how a hanging one is found (KIP-664).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@struct
class DescribeProducersRequestTopic(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=61)
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    topics: list[DescribeProducersRequestTopic] = wire(array(DescribeProducersRequestTopic))


@struct
class ActiveProducer(Message):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=-1)


@struct
class DescribeProducersResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    active_producers: list[ActiveProducer] = wire(array(ActiveProducer))


@struct
class DescribeProducersResponseTopic(Message):
    name: str = wire(STRING)
    partitions: list[DescribeProducersResponsePartition] = wire(array(DescribeProducersResponsePartition))


@message("0", flexible="0+", key=61)
class DescribeProducersResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[DescribeProducersResponseTopic] = wire(array(DescribeProducersResponseTopic))
