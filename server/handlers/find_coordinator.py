"""FindCoordinator, versions 0-6: which broker coordinates a group, a transactional id, or (from version 6) the state of
a share partition, whose key is "group:topic id:partition" (several keys from version 4, KIP-699).

The first to ask has the topic of that coordinator made, and is answered when it is there (Kafka answers
COORDINATOR_NOT_AVAILABLE, and the client asks again after a while).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.uuids import uuid_from_text
from ..api.authorization import denies, denies_on_cluster
from ..coordinators.coordinator_driver import CoordinatorDriver
from ..network.call import Call
from ..services import Services

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
SHARE_KEY_TYPE = 2
SEVERAL_KEYS_VERSION = 4
SHARE_KEY_VERSION = 6
#: Kafka's words for these errors, which versions 1 to 3 carry.
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}

_RESOURCE_TYPES = {GROUP_KEY_TYPE: ResourceType.GROUP, TRANSACTION_KEY_TYPE: ResourceType.TRANSACTIONAL_ID}
_DENIED = {
    GROUP_KEY_TYPE: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TRANSACTION_KEY_TYPE: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    SHARE_KEY_TYPE: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


NOT_AVAILABLE = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_SERVED = Found(ErrorCode.INVALID_REQUEST)


def handle(services: Services, call: Call) -> FindCoordinatorResponse | None:
    if services.authorizer is not None and not any(_is_permitted(services, call, key) for key in _keys(call)):
        return _answer(services, call)  # no topic is made for a client that may not know of it
    driver = _driver(services, call)
    if driver is not None and services.metadata.image.topic(driver.topic) is None:
        driver.ensure_topic(partial(_reply, services, call))
        return None
    return _answer(services, call)


def _driver(services: Services, call: Call) -> CoordinatorDriver | None:
    key_type = call.request.key_type
    if key_type == GROUP_KEY_TYPE:
        return services.groups
    if key_type == TRANSACTION_KEY_TYPE:
        return services.transactions()
    is_served = key_type == SHARE_KEY_TYPE and call.version >= SHARE_KEY_VERSION
    return services.share_states() if is_served and all(map(_is_share_key, call.request.coordinator_keys)) else None


def _is_share_key(key: str) -> bool:
    """ "group:topic id:partition"; a group's name may have colons of its own."""
    group_id, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    try:
        uuid_from_text(topic_id)
    except ValueError:
        return False
    return bool(group_id.strip()) and partition.isdigit()


def _reply(services: Services, call: Call) -> None:
    call.reply(_answer(services, call))


def _answer(services: Services, call: Call) -> FindCoordinatorResponse:
    request: FindCoordinatorRequest = call.request
    if call.version < SEVERAL_KEYS_VERSION:
        error, node_id, host, port = _find(services, call, request.key)
        return FindCoordinatorResponse(
            error_code=error, error_message=MESSAGES[error], node_id=node_id, host=host, port=port
        )
    coordinators = []
    for key in request.coordinator_keys:
        error, node_id, host, port = _find(services, call, key)
        # Kafka gives no words for a share partition's key that it cannot read.
        is_share_key = request.key_type == SHARE_KEY_TYPE
        message = MESSAGES[error] if error is ErrorCode.INVALID_REQUEST and not is_share_key else ""
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            message = MESSAGES[error]
        coordinators.append(
            Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message)
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _keys(call: Call) -> list[str]:
    request: FindCoordinatorRequest = call.request
    return [request.key] if call.version < SEVERAL_KEYS_VERSION else request.coordinator_keys


def _is_permitted(services: Services, call: Call, key: str, *, log_denied: bool = False) -> bool:
    """Returns whether the client may know the coordinator of the key. That of a share partition is known to nodes."""
    key_type = call.request.key_type
    if key_type == SHARE_KEY_TYPE and call.version >= SHARE_KEY_VERSION:
        return not denies_on_cluster(services, call, Operation.CLUSTER_ACTION, log_denied=log_denied)
    resource_type = _RESOURCE_TYPES.get(key_type)
    return resource_type is None or not denies(
        services, call, Operation.DESCRIBE, resource_type, key, log_denied=log_denied
    )


def _find(services: Services, call: Call, key: str) -> Found:
    if not _is_permitted(services, call, key, log_denied=True):
        return Found(_DENIED[call.request.key_type])
    driver = _driver(services, call)
    if driver is None:
        return NOT_SERVED
    place = (driver.topic, driver.partition_for(key))
    if place in services.partitions.unmade:
        return NOT_AVAILABLE
    node = services.leaders.current_leader(call.listener, *place).node
    return NOT_AVAILABLE if node is None else Found(ErrorCode.NONE, node.id, node.host, node.port)
