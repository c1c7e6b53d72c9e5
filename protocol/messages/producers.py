"""Idempotent producers: their ids, and their states in partitions."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, INT64, STRING, Message, array, message, struct, wire

# InitProducerId (key 22): a producer id and epoch, for idempotence or for a transactional id.
#
# Without a transactional id any broker answers with an id of the block that it holds. With one, the coordinator bumps
# the epoch, which fences earlier producers of that id, and aborts the transaction that they left
# (CONCURRENT_TRANSACTIONS until it has). Version 6 is not offered: two-phase commit is unstable.
#
# Versions 0-6, flexible from 2. Additions by version:
# - 3: the id and epoch that the producer has, to go on after an error (KIP-360)
# - 4: may answer PRODUCER_FENCED (KIP-588)
# - 5: may answer TRANSACTION_ABORTABLE (KIP-890)
# - 6: two-phase commit, a prepared transaction may be kept (KIP-939)


@message("0-6", flexible="2+", key=22)
class InitProducerIdRequest(Message):
    transactional_id: str | None = wire(STRING, nullable="0+")
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, "3+", default=-1)
    producer_epoch: int = wire(INT16, "3+", default=-1)
    enable2_pc: bool = wire(BOOL, "6+")
    keep_prepared_txn: bool = wire(BOOL, "6+")


@message("0-6", flexible="2+", key=22)
class InitProducerIdResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, "6+", default=-1)


# AllocateProducerIds (key 67): a broker takes a block of producer ids from the controller.
#
# A block has a thousand ids. The controller writes it to the metadata log, so that no id is given twice. A stale broker
# epoch is an error (KIP-730).
#
# Version 0, flexible.


@message("0", flexible="0+", key=67)
class AllocateProducerIdsRequest(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)


@message("0", flexible="0+", key=67)
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id_start: int = wire(INT64)
    producer_id_len: int = wire(INT32)


# DescribeProducers (key 61): the active producers of a partition.
#
# Id, epoch, last sequence and timestamp, and where an open transaction begins: how a hanging one is found (KIP-664).
#
# Version 0, flexible.


@struct
class TopicRequest(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=61)
class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = wire(array(TopicRequest))


@struct
class ProducerState(Message):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=-1)


@struct
class PartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    active_producers: list[ProducerState] = wire(array(ProducerState))


@struct
class TopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[PartitionResponse] = wire(array(PartitionResponse))


@message("0", flexible="0+", key=61)
class DescribeProducersResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[TopicResponse] = wire(array(TopicResponse))
