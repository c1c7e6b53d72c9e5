"""CreateAcls: new access rules (KIP-140, KIP-290).

Decided in `replication/controller/acls.py`.

Contract: `protocol/messages/create_acls.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation, names_unknown
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, ApiEndpoint
from ..network.call import Call
from ..network.portions import Portioning
from ..network.protocol_violation import ProtocolViolation
from ..services import NodeServices


def _named(services: NodeServices, call: Call[CreateAclsRequest]) -> ErrorCode:
    """Raises ProtocolViolation for a code that names nothing: Kafka refuses it while it decodes the request."""
    request = call.request
    for rule in request.creations:
        if names_unknown(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type):
            raise ProtocolViolation(f"{call.api.name} request with an element of type UNKNOWN")
    return ErrorCode.NONE


ENDPOINT: ApiEndpoint[CreateAclsRequest, CreateAclsResponse] = ApiEndpoint(
    precondition=_named,
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("creations",), ("results",)),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=lambda request: len(request.creations),
)
