"""DescribeAcls (key 29), versions 1-3: SECURITY_DISABLED, as there is no authorizer."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..api.acl_requests import check_named
from ..network.call import Call
from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> DescribeAclsResponse:
    asked: DescribeAclsRequest = call.request
    check_named(call, asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type)
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
