"""DescribeGroups (key 15): state, protocol and members of classic groups.

Subscriptions and assignments are shown only while the group is Stable. A group that does not exist is Dead without an
error up to version 5, GROUP_ID_NOT_FOUND from 6 on.

Versions 0-6, flexible from 5. Additions by version:
- 3: authorized operations, when asked for (KIP-430)
- 4: instance ids (KIP-345)
- 6: GROUP_ID_NOT_FOUND with words (KIP-1043)
"""

from __future__ import annotations

from ..schema import BOOL, BYTES, ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("0-6", flexible="5+", key=15)
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    groups: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, "3+")


@struct
class DescribedClassicMember(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "4+", nullable="4+", default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


@struct
class DescribedClassicGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "6+", nullable="6+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: list[DescribedClassicMember] = wire(array(DescribedClassicMember))
    authorized_operations: int = wire(INT32, "3+", default=-2147483648)


@message("0-6", flexible="5+", key=15)
class DescribeGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    groups: list[DescribedClassicGroup] = wire(array(DescribedClassicGroup))
