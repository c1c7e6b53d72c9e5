"""DeleteGroups (key 42), versions 0-3, flexible from 2."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, array, message, struct, wire


@message("0-3", flexible="2+", key=42)
class DeleteGroupsRequest(Message):
    groups_names: list[str] = wire(array(STRING))


@struct
class DeletableGroupResult(Message):
    group_id: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, "3+", nullable="3+", default=None)


@message("0-3", flexible="2+", key=42)
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[DeletableGroupResult] = wire(array(DeletableGroupResult))
