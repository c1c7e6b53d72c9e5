"""WriteShareGroupState (key 85): the share coordinator keeps what a share partition's leader decided.

Appended to `__share_group_state` as an update, now and then as a snapshot. FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH
(KIP-932).

Versions 0-1, all flexible. Additions by version:
- 1: how many deliveries are complete above the start (KIP-1226)
"""

from __future__ import annotations

from ..schema import INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire
from .share_state_batches import StateBatchData
from .share_state_results import StateResult


@struct
class WriteStatePartition(Message):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, "1+", default=-1)
    state_batches: list[StateBatchData] = wire(array(StateBatchData))


@struct
class WriteStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[WriteStatePartition] = wire(array(WriteStatePartition))


@message("0-1", flexible="0+", key=85)
class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    group_id: str = wire(STRING)
    topics: list[WriteStateData] = wire(array(WriteStateData))


@message("0-1", flexible="0+", key=85)
class WriteShareGroupStateResponse(Message):
    results: list[StateResult] = wire(array(StateResult))
