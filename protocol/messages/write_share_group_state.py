"""WriteShareGroupState (key 85): the share coordinator keeps what a share partition's leader decided.

Appended to `__share_group_state` as an update, now and then as a snapshot. FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH
(KIP-932).

Versions 0-1, all flexible. Additions by version:
- 1: how many deliveries are complete above the start (KIP-1226)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@struct
class StateBatch(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


@struct
class PartitionData(Message):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, "1+", default=-1)
    state_batches: list[StateBatch] = wire(array(StateBatch))


@struct
class WriteStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = wire(array(PartitionData))


@message("0-1", flexible="0+", key=85)
class WriteShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[WriteStateData] = wire(array(WriteStateData))


@struct
class PartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class WriteStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0-1", flexible="0+", key=85)
class WriteShareGroupStateResponse(Message):
    results: list[WriteStateResult] = wire(array(WriteStateResult))
