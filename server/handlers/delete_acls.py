"""DeleteAcls (key 31), versions 1-3. The active controller decides: replication/controller/acls.py."""

from __future__ import annotations

from ...protocol.messages.delete_acls import DeleteAclsRequest
from ...protocol.schema import Message
from ..api.acl_requests import check_named
from ..network.call import Call
from ..services import NodeServices
from .forwarded import to_controller


def handle(services: NodeServices, call: Call) -> Message | None:
    request: DeleteAclsRequest = call.request
    for one in request.filters:
        check_named(call, one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
    return to_controller(services, call)
