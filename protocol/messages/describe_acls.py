"""DescribeAcls (key 29): the access rules that match a filter.

A null or ANY part of the filter matches everything; pattern type MATCH finds what applies to a name: literals,
prefixes and wildcards. SECURITY_DISABLED without an authorizer.

Versions 1-3, flexible from 2. Additions by version:
- 1: pattern types (KIP-290)
- 3: users as resources (KIP-373)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("1-3", flexible="2+", key=29)
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable="0+")
    pattern_type_filter: int = wire(INT8, "1+", default=3)
    principal_filter: str | None = wire(STRING, nullable="0+")
    host_filter: str | None = wire(STRING, nullable="0+")
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@struct
class AclDescription(Message):
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@struct
class DescribeAclsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, "1+", default=3)
    acls: list[AclDescription] = wire(array(AclDescription))


@message("1-3", flexible="2+", key=29)
class DescribeAclsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    resources: list[DescribeAclsResource] = wire(array(DescribeAclsResource))
