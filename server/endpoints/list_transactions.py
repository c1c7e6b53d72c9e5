"""ListTransactions: the transactional ids whose coordinator this broker is (KIP-664).

Contract: `protocol/messages/list_transactions.py`.
"""

from __future__ import annotations

from ...coordinator.transaction_admin import unknown_states
from ...metadata.acls import Operation, ResourceType
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..access.authorization.requirements import Each
from ..coordinators.transaction_coordinator import TRANSACTION_COORDINATORS
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services

_IDS = Each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)


def handle(services: Services, call: Call[ListTransactionsRequest]) -> None:
    def reply(shards: list[ListTransactionsResponse]) -> None:
        errors = [shard.error_code for shard in shards if shard.error_code]
        if errors:
            call.reply(ListTransactionsResponse(error_code=errors[0]))
            return
        response = ListTransactionsResponse(unknown_state_filters=unknown_states(call.request))
        response.transaction_states = [
            one
            for shard in shards
            for one in shard.transaction_states
            if not _IDS.denies(services.access.authorizer, call, one.transactional_id)
        ]
        call.reply(response)

    services.coordinators.transactions().submit_to_all(call.request, call.version, call, reply)


ENDPOINT: ApiEndpoint[ListTransactionsRequest, ListTransactionsResponse] = ApiEndpoint(
    handle=handle, authorization=(_IDS,), place=TRANSACTION_COORDINATORS
)
