"""DescribeClientQuotas (key 48): the quotas that match a filter of users, client ids and addresses.

Match type 0 is a name, 1 the default, 2 anything given. `strict` leaves out entities with parts beyond the filter's
(KIP-546).

Versions 0-1, flexible from 1.
"""

from __future__ import annotations

from ..schema import (
    BOOL,
    ERROR_TEXT,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    Message,
    Request,
    array,
    message,
    struct,
    wire,
)
from .quota_entities import EntityData


@struct
class ComponentData(Message):
    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable="0+")


@message("0-1", flexible="1+", key=48)
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    components: list[ComponentData] = wire(array(ComponentData))
    strict: bool = wire(BOOL)


@struct
class ValueData(Message):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)


@struct
class EntryData(Message):
    entity: list[EntityData] = wire(array(EntityData))
    values: list[ValueData] = wire(array(ValueData))


@message("0-1", flexible="1+", key=48)
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    entries: list[EntryData] | None = wire(array(EntryData), nullable="0+")
