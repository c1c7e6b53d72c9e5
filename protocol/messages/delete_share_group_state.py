"""DeleteShareGroupState (key 86): the share coordinator forgets share partitions.

Sent by the group coordinator when a group or its topic is deleted (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT32, STRING, UUID, Message, Request, array, message, struct, wire
from .share_state_results import StateResult


@struct
class DeleteStatePartition(Message):
    partition: int = wire(INT32)


@struct
class DeleteStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[DeleteStatePartition] = wire(array(DeleteStatePartition))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    group_id: str = wire(STRING)
    topics: list[DeleteStateData] = wire(array(DeleteStateData))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateResponse(Message):
    results: list[StateResult] = wire(array(StateResult))
