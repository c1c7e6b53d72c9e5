"""Changes of configurations at the active controller: those that the client may make, and their errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...metadata.acls import Operation
from ...metadata.acls import ResourceType as AclResourceType
from ...metadata.configs import ConfigResourceType
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..access.authorization.requirements import WORDS, Checked, adding, without
from ..access.authorization.sessions import AuthorizationSession
from .config_changes import ConfigsRequest, ConfigsResource, key


def configs_to_alter(request: ConfigsRequest) -> int:
    """Returns the number of records that the controller writes for the request."""
    return sum(len(resource.configs) for resource in request.resources)


def authorized_changes(
    session: AuthorizationSession, request: ConfigsRequest, result_class: Callable[..., Message]
) -> Checked:
    """Takes out the resources whose configuration the client may not change."""
    counts = Counter(map(key, request.resources))
    results: list[Message] = []
    kept: list[ConfigsResource] = []
    for resource in request.resources:
        kind, name = key(resource)
        error = config_error(session, Operation.ALTER_CONFIGS, kind, name) if counts[kind, name] == 1 else None
        if error is None:
            kept.append(resource)
        else:
            words = WORDS.get(error) or f"Unexpected resource type {ConfigResourceType.named(kind)}."
            results.append(result_class(error, words, kind, name))
    return without(request, "resources", kept, adding("responses", results))


def config_error(session: AuthorizationSession, operation: Operation, kind: int, name: str) -> ErrorCode | None:
    """Returns why the client may not do that with the configuration of a resource; None if it may.

    INVALID_REQUEST for a type of resource that has no rule.
    """
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.CLIENT_METRICS):
        is_allowed, error = session.allows_on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif kind == ConfigResourceType.TOPIC:
        is_allowed = session.allows(operation, AclResourceType.TOPIC, name)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif kind == ConfigResourceType.GROUP:
        is_allowed = session.allows(operation, AclResourceType.GROUP, name)
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        return ErrorCode.INVALID_REQUEST
    return None if is_allowed else error
