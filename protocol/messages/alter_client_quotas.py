"""AlterClientQuotas (key 49): sets and removes quotas of users, client ids and addresses.

Each entity is changed whole or not, and answers for itself (KIP-546).

Versions 0-1, flexible from 1.
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, FLOAT64, INT16, INT32, STRING, Message, Request, array, message, struct, wire
from .quota_entities import EntityData


@struct
class OpData(Message):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


@struct
class EntryDataRequest(Message):
    entity: list[EntityData] = wire(array(EntityData))
    ops: list[OpData] = wire(array(OpData))


@message("0-1", flexible="1+", key=49)
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    entries: list[EntryDataRequest] = wire(array(EntryDataRequest))
    validate_only: bool = wire(BOOL)


@struct
class EntryDataResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    entity: list[EntityData] = wire(array(EntityData))


@message("0-1", flexible="1+", key=49)
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = wire(INT32)
    entries: list[EntryDataResponse] = wire(array(EntryDataResponse))
