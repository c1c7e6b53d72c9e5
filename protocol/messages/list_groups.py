"""ListGroups (key 16): the groups that this broker coordinates, of all types.

A client asks every broker. Filters, when there are any, name the states and types wanted, in any case.

Versions 0-5, flexible from 3. Additions by version:
- 1: throttle time
- 4: states, and a filter of them (KIP-518)
- 5: types (classic, consumer, share, streams), and a filter of them (KIP-848)
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("0-5", flexible="3+", key=16)
class ListGroupsRequest(Request["ListGroupsResponse"]):
    states_filter: list[str] = wire(array(STRING), "4+")
    types_filter: list[str] = wire(array(STRING), "5+")


@struct
class ListedGroup(Message):
    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, "4+")
    group_type: str = wire(STRING, "5+")


@message("0-5", flexible="3+", key=16)
class ListGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16)
    groups: list[ListedGroup] = wire(array(ListedGroup))
