"""Quotas of users, client ids and addresses: description and changes."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, FLOAT64, INT8, INT16, INT32, STRING, Message, array, message, struct, wire

# DescribeClientQuotas (key 48): the quotas that match a filter of users, client ids and addresses.
#
# Match type 0 is a name, 1 the default, 2 anything given. `strict` leaves out entities with parts beyond the filter's
# (KIP-546).
#
# Versions 0-1, flexible from 1.


@struct
class ComponentData(Message):
    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable="0+")


@message("0-1", flexible="1+", key=48)
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = wire(array(ComponentData))
    strict: bool = wire(BOOL)


@struct
class EntityData(Message):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable="0+")


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


# AlterClientQuotas (key 49): sets and removes quotas of users, client ids and addresses.
#
# Each entity is changed whole or not, and answers for itself (KIP-546).
#
# Versions 0-1, flexible from 1.


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
class AlterClientQuotasRequest(Message):
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
