"""DescribeTransactions (key 65), version 0. See coordinator/transactions/admin.py. The ids may be of different shards."""

from __future__ import annotations

from functools import partial

from ...protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ..network.call import Call
from ..runtime.gather import gather
from ..services import Services


def handle(services: Services, call: Call) -> None:
    request: DescribeTransactionsRequest = call.request
    driver = services.transactions()

    def reply(answers: list[DescribeTransactionsResponse]) -> None:
        described = [state for answer in answers for state in answer.transaction_states]
        call.reply(DescribeTransactionsResponse(transaction_states=described))

    gather(
        [
            partial(driver.submit, ids[0], DescribeTransactionsRequest(transactional_ids=ids), call.version, call)
            for ids in driver.by_partition(request.transactional_ids)
        ],
        reply,
    )
