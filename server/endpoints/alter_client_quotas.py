"""AlterClientQuotas: quotas of users, client ids and addresses.

Decided in `replication/controller/client_quotas.py`.

A quota of an address may name a host. The node that takes the request checks that the name resolves, as Kafka's
controller does: a decision waits for nothing.

Contract: `protocol/messages/alter_client_quotas.py`.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation
from ...metadata.client_quotas import IP, no_valid_host
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataRequest,
    EntryDataResponse,
)
from ...protocol.messages.quota_entities import EntityData
from ..access.authorization.usual_requirements import IN_GENERAL_WORDS, on_cluster
from ..access.quotas.connection_rates import Addresses, is_address, resolve
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, SMALL_RESERVE, ApiEndpoint
from ..network.call import Call
from ..network.portions import TOGETHER, Portioning
from ..services import NodeServices


def handle(services: NodeServices, call: Call[AlterClientQuotasRequest]) -> AlterClientQuotasResponse | None:
    request = call.request
    names = {host for entry in request.entries if (host := _host(entry)) is not None and not is_address(host)}
    if names:
        call.hold_connection()
        resolve(names, partial(_resolved, services, call, request))
    else:
        _decide(services, call, request, [])
    return None


def _host(entry: EntryDataRequest) -> str | None:
    """Returns the name of an entity that is an address alone; None for any other."""
    if len(entry.entity) == 1 and entry.entity[0].entity_type == IP:
        return entry.entity[0].entity_name or None
    return None


def _resolved(
    services: NodeServices, call: Call[AlterClientQuotasRequest], request: AlterClientQuotasRequest, resolved: Addresses
) -> None:
    if call.connection.closed:
        return
    absent = {host for host, addresses in resolved.items() if not addresses}
    rejected = [
        EntryDataResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=no_valid_host(host),
            entity=[EntityData(entity_type=IP, entity_name=host)],
        )
        for host in sorted(absent & {_host(entry) for entry in request.entries})
    ]
    kept = [entry for entry in request.entries if _host(entry) not in absent]
    _decide(services, call, AlterClientQuotasRequest(kept, request.validate_only), rejected)


def _decide(
    services: NodeServices,
    call: Call[AlterClientQuotasRequest],
    request: AlterClientQuotasRequest,
    rejected: list[EntryDataResponse],
) -> None:
    def decided(response: AlterClientQuotasResponse) -> None:
        response.entries += rejected
        call.reply_forwarded(response)

    services.controller.driver.submit(
        request,
        call.version,
        decided,
        principal=call.principal,
        client_host=call.client_host,
        client_id=call.client_id,
    )


def _entity(entry: EntryDataRequest) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _rejected(call: Call[AlterClientQuotasRequest], error: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
    """Returns the response with the entities of the request as they are: one entry may have very many parts."""
    request = call.request
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(error_code=error, error_message=message, entity=one.entity) for one in request.entries
        ]
    )


ENDPOINT: ApiEndpoint[AlterClientQuotasRequest, AlterClientQuotasResponse] = ApiEndpoint(
    handle=handle,
    reject=_rejected,
    authorization=(on_cluster(Operation.ALTER_CONFIGS, IN_GENERAL_WORDS),),
    place=ACTIVE_CONTROLLER,
    is_authorized_twice=True,  # no name is looked up for a client that is denied
    portionings=(Portioning(("entries",), ("entries",), TOGETHER, _entity, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=lambda request: sum(len(entry.ops) for entry in request.entries),
    log_reserve=SMALL_RESERVE,
)
