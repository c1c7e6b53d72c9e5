"""DeleteAcls (key 31), versions 1-3: removes the access rules that match filters (KIP-140, KIP-290).

Decided in `replication/controller/security.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation, names_unknown
from ...protocol.errors import ErrorCode
from ...protocol.messages.acls import DeleteAclsRequest
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint, Portioning
from ..network.call import Call, ProtocolViolation
from ..services import NodeServices


def _named(services: NodeServices, call: Call) -> ErrorCode:
    """Raises ProtocolViolation for a code that names nothing: Kafka refuses it while it decodes the request."""
    request: DeleteAclsRequest = call.request
    for one in request.filters:
        if names_unknown(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type):
            raise ProtocolViolation(f"{call.api.name} request with an element of type UNKNOWN")
    return ErrorCode.NONE


ENDPOINT = ApiEndpoint(
    precondition=_named,
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("filters",), ("filter_results",), first=1),),
)
