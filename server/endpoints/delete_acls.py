"""DeleteAcls: removes the access rules that match filters (KIP-140, KIP-290).

Decided in `replication/controller/acls.py`.

Contract: `protocol/messages/delete_acls.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation, names_unknown
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import Portioning
from ..network.protocol_violation import ProtocolViolation
from ..services import NodeServices


def _named(services: NodeServices, call: Call[DeleteAclsRequest]) -> ErrorCode:
    """Raises ProtocolViolation for a code that names nothing: Kafka refuses it while it decodes the request."""
    request = call.request
    for one in request.filters:
        if names_unknown(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type):
            raise ProtocolViolation(f"{call.api.name} request with an element of type UNKNOWN")
    return ErrorCode.NONE


ENDPOINT: ApiEndpoint[DeleteAclsRequest, DeleteAclsResponse] = ApiEndpoint(
    precondition=_named,
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("filters",), ("filter_results",), first=1),),
)
