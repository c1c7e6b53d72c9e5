"""FindCoordinator, versions 0-6: which broker coordinates a group or a transactional id (several from version 4, KIP-699).

The first to ask has `__consumer_offsets` or `__transaction_state` made, and is answered when it is there (Kafka answers
COORDINATOR_NOT_AVAILABLE, and the client asks again after a while). Coordinators of share groups' state are not built yet:
INVALID_REQUEST, which no client tries again.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..coordinator_driver import CoordinatorDriver
from ..dispatch import Call
from ..leaders import current_leader

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
SHARE_KEY_TYPE = 2
SEVERAL_KEYS_VERSION = 4
#: Kafka's words for these errors, which versions 1 to 3 carry.
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


NOT_AVAILABLE = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_SERVED = Found(ErrorCode.INVALID_REQUEST)


def handle(call: Call) -> FindCoordinatorResponse | None:
    driver = _driver(call)
    if driver is not None and call.broker.image.topic(driver.topic) is None:
        driver.ensure_topic(partial(_reply, call))
        return None
    return _answer(call)


def _driver(call: Call) -> CoordinatorDriver | None:
    if call.request.key_type == GROUP_KEY_TYPE:
        return call.broker.groups
    return call.broker.transactions if call.request.key_type == TRANSACTION_KEY_TYPE else None


def _reply(call: Call) -> None:
    call.reply(_answer(call))


def _answer(call: Call) -> FindCoordinatorResponse:
    request: FindCoordinatorRequest = call.request
    if call.version < SEVERAL_KEYS_VERSION:
        error, node_id, host, port = _find(call, request.key)
        return FindCoordinatorResponse(
            error_code=error, error_message=MESSAGES[error], node_id=node_id, host=host, port=port
        )
    coordinators = []
    for key in request.coordinator_keys:
        error, node_id, host, port = _find(call, key)
        # Kafka gives no words for a share partition's key that it cannot read.
        message = MESSAGES[error] if error is ErrorCode.INVALID_REQUEST and request.key_type != SHARE_KEY_TYPE else ""
        coordinators.append(
            Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message)
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(call: Call, key: str) -> Found:
    driver = _driver(call)
    if driver is None:
        return NOT_SERVED
    node = current_leader(call, driver.topic, driver.partition_for(key)).node
    return NOT_AVAILABLE if node is None else Found(ErrorCode.NONE, node.id, node.host, node.port)
