"""Records of `__transaction_state`: the coordinator's state of each transactional id (KIP-98).

Framed as in `__consumer_offsets`: the key is a version and the id, the value a version and the state with the
partitions of an open transaction. Version 1 is flexible. Its tagged fields hold the previous and next producer id when
an epoch is exhausted, and the transaction protocol of the client (KIP-890).
"""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, INT64, STRING, Message, array, message, struct, wire


@message("0", key=0)
class TransactionLogKey(Message):
    transactional_id: str = wire(STRING, "0")


@struct
class PartitionsSchema(Message):
    topic: str = wire(STRING)
    partition_ids: list[int] = wire(array(INT32))


@message("0-1", flexible="1+", key=0)
class TransactionLogValue(Message):
    producer_id: int = wire(INT64)
    previous_producer_id: int = wire(INT64, "1+", tag=0, default=-1)
    next_producer_id: int = wire(INT64, "1+", tag=1, default=-1)
    producer_epoch: int = wire(INT16)
    next_producer_epoch: int = wire(INT16, "1+", tag=3, default=-1)
    transaction_timeout_ms: int = wire(INT32)
    transaction_status: int = wire(INT8)
    transaction_partitions: list[PartitionsSchema] | None = wire(array(PartitionsSchema), nullable="0+")
    transaction_last_update_timestamp_ms: int = wire(INT64)
    transaction_start_timestamp_ms: int = wire(INT64)
    client_transaction_version: int = wire(INT16, "1+", tag=2)
