"""AlterClientQuotas (key 49), versions 0-1: quotas of users, client ids and addresses.

Decided in `replication/controller/security.py`.

A quota of an address may name a host. The node that takes the request checks that the name resolves, as Kafka's
controller does: a decision waits for nothing.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation
from ...metadata.client_quotas import IP, no_valid_host
from ...protocol.errors import ErrorCode
from ...protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataRequest,
    EntryDataResponse,
)
from ...protocol.schema import Message
from ..access.authorization.requirements import IN_GENERAL_WORDS, on_cluster
from ..access.quotas.client_quotas import Addresses, is_address, resolve
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, SMALL_RESERVE, TOGETHER, ApiEndpoint, Portioning
from ..network.call import Call
from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> Message | None:
    request: AlterClientQuotasRequest = call.request
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


def _resolved(services: NodeServices, call: Call, request: AlterClientQuotasRequest, found: Addresses) -> None:
    if call.connection.closed:
        return
    absent = {host for host, addresses in found.items() if not addresses}
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
    services: NodeServices, call: Call, request: AlterClientQuotasRequest, rejected: list[EntryDataResponse]
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


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(on_cluster(Operation.ALTER_CONFIGS, IN_GENERAL_WORDS),),
    place=ACTIVE_CONTROLLER,
    is_authorized_twice=True,  # no name is looked up for a client that is denied
    portionings=(Portioning(("entries",), ("entries",), TOGETHER, _entity, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=lambda request: sum(len(entry.ops) for entry in request.entries),
    log_reserve=SMALL_RESERVE,
)
