"""Questions of handlers to the authorizer, in one line each. Without an authorizer every client may do everything."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Any

from ...metadata.acls import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...replication.controller.controller import error_response
from ..security.authorization.cluster_operations import rejected

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from ..network.call import Call
    from ..services import NodeServices

#: Refused in a form of their own; and with Kafka's general words for the error.
_HAVE_A_FORM = ("JoinGroup", "OffsetFetch")
_TELLS_WORDS = ("AlterShareGroupOffsets", "DeleteShareGroupOffsets")
NONE_DENIED: frozenset[str] = frozenset()


def denies(
    services: NodeServices,
    call: Call,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    log_denied: bool = True,
) -> bool:
    """Returns whether the client may not do it. `log_denied`: whether a denial is an attempt, for the audit log."""
    authorizer = services.authorizer
    return authorizer is not None and not authorizer.session(call).allows(
        operation, resource_type, name, log_denied=log_denied
    )


def denied_names(
    services: NodeServices,
    call: Call,
    operation: Operation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    log_denied: bool = True,
) -> Set[str]:
    """Returns the names on which the client may not do it."""
    authorizer = services.authorizer
    if authorizer is None:
        return NONE_DENIED
    asked = list(names)
    return set(asked) - authorizer.session(call).allowed_names(operation, resource_type, asked, log_denied=log_denied)


def denies_on_cluster(services: NodeServices, call: Call, operation: Operation, *, log_denied: bool = True) -> bool:
    return denies(services, call, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def authorized_client(services: NodeServices, call: Call) -> tuple[str, str] | None:
    """Returns principal and host of a client that is authorized for each request; None where none is."""
    return None if services.authorizer is None else (call.principal, call.client_host)


def cluster_error(services: NodeServices, call: Call, operation: Operation) -> Message | None:
    """Returns the response to a request whose client may not do that on the cluster; None if it may."""
    if not denies_on_cluster(services, call, operation):
        return None
    return error_response(call.request, rejected(call.api.name, operation))


def group_error(services: NodeServices, call: Call, operation: Operation = Operation.READ) -> Message | None:
    """Returns the response to a request about one group whose client may not do that with it; None if it may."""
    if not denies(services, call, operation, ResourceType.GROUP, call.request.group_id):
        return None
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    response: Any = call.api.response()
    if hasattr(response, "error_code") and call.api.name not in _HAVE_A_FORM:
        response.error_code = error
        if call.api.name in _TELLS_WORDS:
            response.error_message = "Group authorization failed."
        made: Message = response
        return made
    from ...coordinator.groups.error_responses import error_response as group_error_response

    return group_error_response(call.request, error)


def authorized_operations(services: NodeServices, call: Call, resource_type: ResourceType, name: str) -> int:
    """Returns the operations that the client may do on a resource that it may describe, a bit for each (KIP-430)."""
    authorizer = services.authorizer
    if authorizer is None:
        return _ALL_OPERATIONS[resource_type]
    return authorizer.session(call).operations(resource_type, name)


def cluster_operations(services: NodeServices, call: Call) -> int:
    """Returns the authorized operations on the cluster; 0 for a client that may not describe it."""
    if denies_on_cluster(services, call, Operation.DESCRIBE):
        return 0
    return authorized_operations(services, call, ResourceType.CLUSTER, CLUSTER_NAME)


_ALL_OPERATIONS = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS_OF.items()
}
