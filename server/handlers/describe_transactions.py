"""DescribeTransactions (key 65), version 0. See coordinator/transactions/operations.py. Ids may be of different shards."""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ..api.authorization import denied_names
from ..network.call import Call
from ..runtime.gather import gather
from ..services import Services


def handle(services: Services, call: Call) -> None:
    request: DescribeTransactionsRequest = call.request
    asked = request.transactional_ids
    denied = denied_names(services, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, asked)
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    unseen = [TransactionState(error_code=error, transactional_id=one) for one in asked if one in denied]
    driver = services.transactions()

    def reply(answers: list[DescribeTransactionsResponse]) -> None:
        described = [state for answer in answers for state in answer.transaction_states]
        for state in described if services.authorizer is not None else ():
            names = [topic.topic for topic in state.topics]
            hidden = denied_names(services, call, Operation.DESCRIBE, ResourceType.TOPIC, names)
            state.topics = [topic for topic in state.topics if topic.topic not in hidden]
        call.reply(DescribeTransactionsResponse(transaction_states=[*unseen, *described]))

    gather(
        [
            partial(driver.submit, ids[0], DescribeTransactionsRequest(transactional_ids=ids), call.version, call)
            for ids in driver.by_partition(one for one in asked if one not in denied)
        ],
        reply,
    )
