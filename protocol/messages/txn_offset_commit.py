"""TxnOffsetCommit (key 28): positions committed as part of a transaction.

They are pending until the transaction's marker comes. The producer's id and epoch fence it; a member also names its
generation (KIP-447).

Versions 0-6, flexible from 3. Additions by version:
- 2: leader epoch of the position
- 3: member, generation and instance id (KIP-447)
- 4: may answer TRANSACTION_ABORTABLE (KIP-890)
- 5: also adds the offsets to the transaction (KIP-890, part 2)
- 6: topics by id; GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-1319)
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, "2+", default=-1)
    committed_metadata: str | None = wire(STRING, nullable="0+")


@struct
class TxnOffsetCommitRequestTopic(Message):
    name: str = wire(STRING, "0-5")
    topic_id: bytes = wire(UUID, "6+")
    partitions: list[TxnOffsetCommitRequestPartition] = wire(array(TxnOffsetCommitRequestPartition))


@message("0-6", flexible="3+", key=28)
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id_or_member_epoch: int = wire(INT32, "3+", default=-1)
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire(array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class TxnOffsetCommitResponseTopic(Message):
    name: str = wire(STRING, "0-5")
    topic_id: bytes = wire(UUID, "6+")
    partitions: list[TxnOffsetCommitResponsePartition] = wire(array(TxnOffsetCommitResponsePartition))


@message("0-6", flexible="3+", key=28)
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = wire(array(TxnOffsetCommitResponseTopic))
