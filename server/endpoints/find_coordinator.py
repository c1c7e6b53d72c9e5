"""FindCoordinator: the broker that coordinates a group, a transactional id or a share partition.

The first to ask has the topic of that coordinator made, and is answered when it is there (Kafka answers
COORDINATOR_NOT_AVAILABLE, and the client asks again after a while).

Contract: `protocol/messages/find_coordinator.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ...metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ...protocol.behaviour_versions import FIND_COORDINATOR_WITH_SHARE_KEYS
from ...protocol.coordinator_types import GROUP, SHARE, TRANSACTION
from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.uuids import uuid_from_text
from ...replication.controller import topic_creation as creation_decisions
from ..access.authorization.requirements import WORDS, Each
from ..coordinators import topic_creation, transaction_coordinator
from ..coordinators.coordinator_driver import CoordinatorDriver
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import Portioning
from ..produce import transactional_produce
from ..services import Services

#: Imported with this file, on a thread: what a client that looks for a coordinator uses next.
PRELOADED = (*transaction_coordinator.PRELOADED, transactional_produce, creation_decisions, topic_creation)
_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
_TRANSACTIONAL_IDS = Each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
_SHARE_PARTITIONS = Each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
WITH_SEVERAL_KEYS = FindCoordinatorRequest.versions_with("coordinator_keys")
#: Kafka's words for these errors, which versions 1 to 3 carry.
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    **WORDS,
}

_REQUIREMENTS = {GROUP: _GROUPS, TRANSACTION: _TRANSACTIONAL_IDS}
_DENIED = {
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    SHARE: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class FoundCoordinator(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


NOT_AVAILABLE = FoundCoordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_SERVED = FoundCoordinator(ErrorCode.INVALID_REQUEST)


def handle(services: Services, call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse | None:
    if services.access.authorizer is not None and not any(_is_permitted(services, call, key) for key in _keys(call)):
        return _respond(services, call)  # no topic is made for a client that may not know of it
    driver = _driver(services, call)
    if driver is not None and services.metadata.image.topic(driver.topic) is None:
        driver.ensure_topic(partial(_reply, services, call))
        return None
    return _respond(services, call)


def _driver(services: Services, call: Call[FindCoordinatorRequest]) -> CoordinatorDriver[Any] | None:
    key_type = call.request.key_type
    if key_type == GROUP:
        return services.coordinators.groups
    if key_type == TRANSACTION:
        return services.coordinators.transactions()
    is_served = key_type == SHARE and call.version in FIND_COORDINATOR_WITH_SHARE_KEYS
    return services.share.states() if is_served and all(map(_is_share_key, call.request.coordinator_keys)) else None


def _is_share_key(key: str) -> bool:
    """ "group:topic id:partition"; a group's name may have colons of its own."""
    group_id, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    try:
        uuid_from_text(topic_id)
    except ValueError:
        return False
    return bool(group_id.strip()) and partition.isdigit()


def _reply(services: Services, call: Call[FindCoordinatorRequest]) -> None:
    call.reply(_respond(services, call))


def _respond(services: Services, call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    request = call.request
    if call.version not in WITH_SEVERAL_KEYS:
        error, node_id, host, port = _find(services, call, request.key)
        return FindCoordinatorResponse(
            error_code=error, error_message=MESSAGES[error], node_id=node_id, host=host, port=port
        )
    coordinators = []
    for key in request.coordinator_keys:
        error, node_id, host, port = _find(services, call, key)
        # Kafka gives no words for a share partition's key that it cannot read.
        is_share_key = request.key_type == SHARE
        message = MESSAGES[error] if error is ErrorCode.INVALID_REQUEST and not is_share_key else ""
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            message = MESSAGES[error]
        coordinators.append(
            Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message)
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _keys(call: Call[FindCoordinatorRequest]) -> list[str]:
    request = call.request
    return [request.key] if call.version not in WITH_SEVERAL_KEYS else request.coordinator_keys


def _is_permitted(
    services: Services, call: Call[FindCoordinatorRequest], key: str, *, log_denied: bool = False
) -> bool:
    """Returns whether the client may know the coordinator of the key. That of a share partition is known to nodes."""
    key_type = call.request.key_type
    if key_type == SHARE and call.version in FIND_COORDINATOR_WITH_SHARE_KEYS:
        return not _SHARE_PARTITIONS.denies(services.access.authorizer, call, CLUSTER_NAME, log_denied=log_denied)
    requirement = _REQUIREMENTS.get(key_type)
    return requirement is None or not requirement.denies(services.access.authorizer, call, key, log_denied=log_denied)


def _find(services: Services, call: Call[FindCoordinatorRequest], key: str) -> FoundCoordinator:
    if not _is_permitted(services, call, key, log_denied=True):
        return FoundCoordinator(_DENIED[call.request.key_type])
    driver = _driver(services, call)
    if driver is None:
        return NOT_SERVED
    place = (driver.topic, driver.partition_for(key))
    if place in services.partitions.hosted.pending:
        return NOT_AVAILABLE
    node = services.replicas.leaders.current_leader(call.listener, *place).node
    return NOT_AVAILABLE if node is None else FoundCoordinator(ErrorCode.NONE, node.id, node.host, node.port)


ENDPOINT: ApiEndpoint[FindCoordinatorRequest, FindCoordinatorResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_GROUPS, _TRANSACTIONAL_IDS, _SHARE_PARTITIONS),
    portionings=(Portioning(("coordinator_keys",), ("coordinators",)),),
)
