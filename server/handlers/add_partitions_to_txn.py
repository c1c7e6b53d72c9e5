"""AddPartitionsToTxn (key 24), versions 0-5. See coordinator/transactions/partitions.py.

Up to version 3 it is a client's, for one transaction. From 4 on it is a broker's, for several, each of which may belong to
another shard. With a partition that does not exist none is added: the others are OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ..runtime.gather import gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...metadata.image import MetadataImage
    from ...protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
    from ..network.call import Call
    from ..services import Services

BATCHED_VERSION = 4


def handle(services: Services, call: Call) -> AddPartitionsToTxnResponse | None:
    request: AddPartitionsToTxnRequest = call.request
    if call.version >= BATCHED_VERSION:
        gather(
            [partial(_ask, services, call, transaction) for transaction in request.transactions],
            lambda results: call.reply(AddPartitionsToTxnResponse(results_by_transaction=results)),
        )
        return None
    refused = _refused(services.metadata.image, request.v3_and_below_topics)
    if refused is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused)
    key = request.v3_and_below_transactional_id
    services.transactions().submit(key, request, call.version, call, call.reply)
    return None


def _ask(
    services: Services,
    call: Call,
    transaction: AddPartitionsToTxnTransaction,
    done: Callable[[AddPartitionsToTxnResult], None],
) -> None:
    key = transaction.transactional_id
    refused = _refused(services.metadata.image, transaction.topics)
    if refused is not None:
        done(AddPartitionsToTxnResult(transactional_id=key, topic_results=refused))
        return

    def reply(response: AddPartitionsToTxnResponse) -> None:
        done(response.results_by_transaction[0])

    single = AddPartitionsToTxnRequest(transactions=[transaction])
    services.transactions().submit(key, single, call.version, call, reply)


def _refused(image: MetadataImage, topics: list[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopicResult] | None:
    """The answer when some partition is unknown, else None."""
    if all(image.partition(topic.name, index) is not None for topic in topics for index in topic.partitions):
        return None
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, _error(image, topic.name, index)) for index in topic.partitions],
        )
        for topic in topics
    ]


def _error(image: MetadataImage, topic: str, index: int) -> ErrorCode:
    is_known = image.partition(topic, index) is not None
    return ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
