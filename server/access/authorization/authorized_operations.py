"""The operations that a client may do on a resource, as descriptions return them (KIP-430)."""

from __future__ import annotations

from ....metadata.acls import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType
from .requirements import Each, Sessions
from .sessions import ClientCall

_ALL_OPERATIONS = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS_OF.items()
}
_DESCRIBE_CLUSTER = Each(Operation.DESCRIBE, ResourceType.CLUSTER)


def authorized_operations(authorizer: Sessions | None, call: ClientCall, resource_type: ResourceType, name: str) -> int:
    """Returns the operations that the client may do on a resource that it may describe, a bit for each."""
    if authorizer is None:
        return _ALL_OPERATIONS[resource_type]
    return authorizer.session(call).operations(resource_type, name)


def cluster_operations(authorizer: Sessions | None, call: ClientCall) -> int:
    """Returns the authorized operations on the cluster; 0 for a client that may not describe it."""
    if _DESCRIBE_CLUSTER.denies(authorizer, call, CLUSTER_NAME):
        return 0
    return authorized_operations(authorizer, call, ResourceType.CLUSTER, CLUSTER_NAME)
