"""DeleteGroups (key 42): removes groups and their offsets.

Each group answers for itself: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND.

Versions 0-3, flexible from 2. Additions by version:
- 3: the error in words
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("0-3", flexible="2+", key=42)
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    groups_names: list[str] = wire(array(STRING))


@struct
class DeletableGroupResult(Message):
    group_id: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "3+", nullable="3+", default=None)


@message("0-3", flexible="2+", key=42)
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[DeletableGroupResult] = wire(array(DeletableGroupResult))
