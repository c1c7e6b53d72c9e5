"""CreateAcls (key 30): adds access rules.

Each is checked and answered for itself; a rule that is there already is a success. Only the controller writes them.

Versions 1-3, flexible from 2. Additions by version:
- 1: pattern types (KIP-290)
- 3: users as resources (KIP-373)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class AclCreation(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, "1+", default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message("1-3", flexible="2+", key=30)
class CreateAclsRequest(Request["CreateAclsResponse"]):
    creations: list[AclCreation] = wire(array(AclCreation))


@struct
class AclCreationResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@message("1-3", flexible="2+", key=30)
class CreateAclsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[AclCreationResult] = wire(array(AclCreationResult))
