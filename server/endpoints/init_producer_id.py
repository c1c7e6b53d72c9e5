"""InitProducerId: a producer id and epoch (KIP-98, KIP-360).

A producer without a transactional id gets a new producer id, always with epoch 0, whatever id it had (KIP-360). With one,
the coordinator of that id decides: coordinator/transaction_shard.py.

Contract: `protocol/messages/init_producer_id.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ..access.authorization.requirements import NeedsBy
from ..coordinators import transaction_coordinator
from ..network.api_endpoint import ApiEndpoint
from ..produce import transactional_produce

if TYPE_CHECKING:
    from ..access.authorization.sessions import AuthorizationSession
    from ..network.call import Call
    from ..services import Services

#: Imported with this file, on a thread: what a transactional producer uses next.
PRELOADED = (*transaction_coordinator.PRELOADED, transactional_produce)
FIRST_EPOCH = 0


def handle(services: Services, call: Call[InitProducerIdRequest]) -> InitProducerIdResponse | None:
    request = call.request
    half_known = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if half_known or request.transactional_id == "":
        return _error_response(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        services.coordinators.transactions().submit(request.transactional_id, request, call.version, call, call.reply)
        return None

    def respond(error: int, producer_id: int) -> None:
        call.reply(_error_response(error) if error else InitProducerIdResponse(0, 0, producer_id, FIRST_EPOCH))

    services.controller.producer_ids().take(respond)
    return None


def _authorized(session: AuthorizationSession, request: InitProducerIdRequest) -> ErrorCode | None:
    """Returns why the client may not have a producer id. A client that may write to any topic may have one (KIP-679)."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        is_allowed = session.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if session.allows_on_cluster(Operation.IDEMPOTENT_WRITE, log_denied=False) or session.may_write_any_topic():
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _error_response(error: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


ENDPOINT: ApiEndpoint[InitProducerIdRequest, InitProducerIdResponse] = ApiEndpoint(
    handle=handle,
    authorization=(
        NeedsBy(
            "WRITE on TRANSACTIONAL_ID; without one IDEMPOTENT_WRITE on CLUSTER, or WRITE on some TOPIC", _authorized
        ),
    ),
    place=transaction_coordinator.TRANSACTION_COORDINATOR,
)
