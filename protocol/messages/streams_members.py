"""Endpoints and tasks of members of streams groups, in StreamsGroupHeartbeat and StreamsGroupDescribe (KIP-1071)."""

from __future__ import annotations

from ..schema import INT32, INT64, STRING, UINT16, Message, array, struct, wire


@struct
class UserEndpoint(Message):
    host: str = wire(STRING)
    port: int = wire(UINT16)


@struct
class TaskOffset(Message):
    subtopology_id: str = wire(STRING)
    partition: int = wire(INT32)
    offset: int = wire(INT64)


@struct
class TaskIds(Message):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))
