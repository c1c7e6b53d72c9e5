"""DescribeCluster: the brokers, or on a controller's listener the controllers (KIP-700, KIP-919).

The response includes fenced brokers where the request asks for them (KIP-1073).

Contract: `protocol/messages/describe_cluster.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from ..access.authorization.authorized_operations import cluster_operations
from ..access.authorization.requirements import Each, NeedsOn
from ..access.authorization.usual_requirements import on_cluster
from ..controller.cluster_view import ClusterView
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.listener_kind import CONTROLLER
from ..services import NodeServices

_BROKERS, _CONTROLLERS = 1, 2
_TYPE_NAMES = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


def handle(services: NodeServices, call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    request = call.request
    served = _CONTROLLERS if _is_controller_listener(services, call) else _BROKERS
    if request.endpoint_type != served:
        return _wrong_endpoint(request.endpoint_type, served, call.version)
    response = DescribeClusterResponse(endpoint_type=served, cluster_id=services.cluster_id)
    if served == _BROKERS:
        _describe_brokers(services, call, request, response)
    else:
        _describe_controllers(services, call, response)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(services.access.authorizer, call)
    return response


def _is_controller_listener(services: NodeServices, call: Call[DescribeClusterRequest]) -> bool:
    return any(listener.name == call.listener for listener in services.config.listeners.controllers)


def _wrong_endpoint(asked: int, served: int, version: int) -> DescribeClusterResponse:
    """Version 0 has no field for it."""
    known = asked in _TYPE_NAMES
    error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    message = f"Unsupported endpoint type {asked}"
    if known:
        message = (
            f"The request was sent to an endpoint of type {_TYPE_NAMES[served]}, but we wanted an endpoint of type "
            f"{_TYPE_NAMES[asked]}"
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.INVALID_REQUEST if version == 0 else error, error_message=message
    )


def _describe_brokers(
    services: NodeServices,
    call: Call[DescribeClusterRequest],
    request: DescribeClusterRequest,
    response: DescribeClusterResponse,
) -> None:
    view = ClusterView(services.metadata.image, call.listener)
    shown = view.brokers() if request.include_fenced_brokers else view.alive_brokers()
    response.brokers = [
        DescribeClusterBroker(
            broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
        )
        for broker, endpoint in shown
    ]
    response.controller_id = view.controller_id()


def _describe_controllers(
    services: NodeServices, call: Call[DescribeClusterRequest], response: DescribeClusterResponse
) -> None:
    for controller_id, controller in sorted(services.metadata.image.cluster.controllers.items()):
        endpoint = controller.listeners.get(call.listener)
        if endpoint is not None:
            response.brokers.append(
                DescribeClusterBroker(broker_id=controller_id, host=endpoint.host, port=endpoint.port)
            )
    if any(shown.broker_id == services.node_id for shown in response.brokers):
        response.controller_id = services.node_id


ENDPOINT: ApiEndpoint[DescribeClusterRequest, DescribeClusterResponse] = ApiEndpoint(
    handle=handle,
    authorization=(
        NeedsOn(CONTROLLER, on_cluster(Operation.ALTER)),
        Each(Operation.DESCRIBE, ResourceType.CLUSTER, by=cluster_operations),
    ),
)
