"""DeleteAcls (key 31): removes the access rules that match filters.

The response lists, for each filter, the rules that went.

Versions 1-3, flexible from 2. Additions by version:
- 1: pattern types (KIP-290)
- 3: users as resources (KIP-373)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class DeleteAclsFilter(Message):
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable="0+")
    pattern_type_filter: int = wire(INT8, "1+", default=3)
    principal_filter: str | None = wire(STRING, nullable="0+")
    host_filter: str | None = wire(STRING, nullable="0+")
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message("1-3", flexible="2+", key=31)
class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    filters: list[DeleteAclsFilter] = wire(array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, "1+", default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@struct
class DeleteAclsFilterResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = wire(array(DeleteAclsMatchingAcl))


@message("1-3", flexible="2+", key=31)
class DeleteAclsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    filter_results: list[DeleteAclsFilterResult] = wire(array(DeleteAclsFilterResult))
