"""InitializeShareGroupState (key 83): the share coordinator begins the state of share partitions.

Sent by the group coordinator, with a state epoch that fences older ones, and the first offset (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire
from .share_state_results import StateResult


@struct
class InitializeStatePartition(Message):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)


@struct
class InitializeStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[InitializeStatePartition] = wire(array(InitializeStatePartition))


@message("0", flexible="0+", key=83)
class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    group_id: str = wire(STRING)
    topics: list[InitializeStateData] = wire(array(InitializeStateData))


@message("0", flexible="0+", key=83)
class InitializeShareGroupStateResponse(Message):
    results: list[StateResult] = wire(array(StateResult))
