"""CreateAcls (key 30), versions 1-3. The active controller decides: replication/controller/acls.py."""

from __future__ import annotations

from ...protocol.messages.create_acls import CreateAclsRequest
from ...protocol.schema import Message
from ..api.acl_requests import check_named
from ..network.call import Call
from ..services import NodeServices
from .forwarded import to_controller


def handle(services: NodeServices, call: Call) -> Message | None:
    request: CreateAclsRequest = call.request
    for rule in request.creations:
        check_named(call, rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
    return to_controller(services, call)
