"""DescribeTransactions: state, producer and partitions of transactions (KIP-664).

Answered in `coordinator/transaction_admin.py`. Ids may be of different shards.

Contract: `protocol/messages/describe_transactions.py`.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ..access.authorization.requirements import Each
from ..coordinators.scatter_and_gather import gather
from ..coordinators.transaction_coordinator import TRANSACTION_COORDINATORS
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import ONCE, Portioning
from ..services import Services

_IDS = Each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)


def handle(services: Services, call: Call[DescribeTransactionsRequest]) -> None:
    request = call.request
    asked = request.transactional_ids
    denied = _IDS.denied(services.access.authorizer, call, asked)
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    unseen = [TransactionState(error_code=error, transactional_id=one) for one in asked if one in denied]
    driver = services.coordinators.transactions()

    def reply(responses: list[DescribeTransactionsResponse]) -> None:
        described = [state for response in responses for state in response.transaction_states]
        for state in described if services.access.authorizer is not None else ():
            names = [topic.topic for topic in state.topics]
            hidden = _TOPICS.denied(services.access.authorizer, call, names)
            state.topics = [topic for topic in state.topics if topic.topic not in hidden]
        call.reply(DescribeTransactionsResponse(transaction_states=[*unseen, *described]))

    gather(
        [
            partial(driver.submit, ids[0], DescribeTransactionsRequest(transactional_ids=ids), call.version, call)
            for ids in driver.by_partition(one for one in asked if one not in denied)
        ],
        reply,
    )


ENDPOINT: ApiEndpoint[DescribeTransactionsRequest, DescribeTransactionsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_IDS, _TOPICS),
    place=TRANSACTION_COORDINATORS,
    portionings=(Portioning(("transactional_ids",), ("transaction_states",), ONCE, first=8),),
)
