"""DescribeAcls: the access rules that match a filter, by resource; SECURITY_DISABLED without any.

Contract: `protocol/messages/describe_acls.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.acls import AclFilter, Operation, names_unknown
from ...metadata.image import AclImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..access.authorization.usual_requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.protocol_violation import ProtocolViolation
from ..network.work_in_turns import work_in_turns
from ..runtime.sliced_work import Steps
from ..services import NodeServices

#: Rules that are looked at between two turns of others.
_LOOKED_AT_ONCE = 256


def _named(services: NodeServices, call: Call[DescribeAclsRequest]) -> ErrorCode:
    """Raises ProtocolViolation for a code that names nothing: Kafka refuses it while it decodes the request."""
    asked: DescribeAclsRequest = call.request
    if names_unknown(asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type):
        raise ProtocolViolation(f"{call.api.name} request with an element of type UNKNOWN")
    return ErrorCode.NONE


def handle(services: NodeServices, call: Call[DescribeAclsRequest]) -> DescribeAclsResponse | None:
    asked: DescribeAclsRequest = call.request
    if services.access.authorizer is None or not services.access.authorizer.uses_acls:
        error = ErrorCode.SECURITY_DISABLED
        return DescribeAclsResponse(error_code=error, error_message="No Authorizer is configured on the broker")
    wanted = AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    work_in_turns(call, _described(services.metadata.image.acls.values(), wanted), call.reply)
    return None


def _described(rules: Iterable[AclImage], wanted: AclFilter) -> Steps[DescribeAclsResponse]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for number, rule in enumerate(rules):
        if number % _LOOKED_AT_ONCE == 0:
            yield
        if not wanted.matches(rule):
            continue
        resource = resources.get(rule[:3])
        if resource is None:
            resource = resources[rule[:3]] = DescribeAclsResource(*rule[:3], [])
        resource.acls.append(AclDescription(*rule[3:]))
    return DescribeAclsResponse(resources=list(resources.values()))


ENDPOINT: ApiEndpoint[DescribeAclsRequest, DescribeAclsResponse] = ApiEndpoint(
    handle=handle, precondition=_named, authorization=(on_cluster(Operation.DESCRIBE),)
)
