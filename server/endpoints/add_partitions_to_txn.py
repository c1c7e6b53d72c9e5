"""AddPartitionsToTxn: partitions become part of a transaction (KIP-98, KIP-890).

Decided in `coordinator/transaction_partitions.py`.

A client's request is for one transaction. A broker's is for several, each of which may belong to another shard. With a
partition that does not exist none is added: the others are OPERATION_NOT_ATTEMPTED.

Contract: `protocol/messages/add_partitions_to_txn.py`.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from ...coordinator.transactions_state import WITH_TRANSACTIONS
from ...metadata.acls import Operation, ResourceType
from ...metadata.image import TOPIC_RESOURCE
from ...metadata.internal_topics import INTERNAL_TOPICS
from ...metadata.mirror_keys import MIRROR_NAME
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ..access.authorization.requirements import NONE_DENIED, Each, Needs, NeedsIf
from ..access.authorization.usual_requirements import OF_NODES
from ..coordinators.scatter_and_gather import gather
from ..coordinators.transaction_coordinator import TRANSACTION_COORDINATORS
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import Portioning

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from ...metadata.image import MetadataImage
    from ...protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
    from ..network.call import Call
    from ..services import Services

_TOPICS = Each(Operation.WRITE, ResourceType.TOPIC)


def handle(services: Services, call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse | None:
    request = call.request
    if call.version in WITH_TRANSACTIONS:
        gather(
            [partial(_ask, services, call, transaction) for transaction in request.transactions],
            lambda results: call.reply(AddPartitionsToTxnResponse(results_by_transaction=results)),
        )
        return None
    key = request.v3_and_below_transactional_id
    topics = request.v3_and_below_topics
    denied: Set[str] = NONE_DENIED
    if services.access.authorizer is not None:
        internal = {topic.name for topic in topics if topic.name in INTERNAL_TOPICS}
        names = [topic.name for topic in topics if topic.name not in internal]
        denied = internal | _TOPICS.denied(services.access.authorizer, call, names)
    rejected = _error_response(services.metadata.image, topics, denied)
    if rejected is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rejected)
    services.coordinators.transactions().submit(key, request, call.version, call, call.reply)
    return None


def _ask(
    services: Services,
    call: Call[AddPartitionsToTxnRequest],
    transaction: AddPartitionsToTxnTransaction,
    done: Callable[[AddPartitionsToTxnResult], None],
) -> None:
    key = transaction.transactional_id
    rejected = _error_response(services.metadata.image, transaction.topics)
    if rejected is not None:
        done(AddPartitionsToTxnResult(transactional_id=key, topic_results=rejected))
        return

    def reply(response: AddPartitionsToTxnResponse) -> None:
        done(response.results_by_transaction[0])

    single = AddPartitionsToTxnRequest(transactions=[transaction])
    services.coordinators.transactions().submit(key, single, call.version, call, reply)


def _error_response(
    image: MetadataImage, topics: list[AddPartitionsToTxnTopic], denied: Set[str] = NONE_DENIED
) -> list[AddPartitionsToTxnTopicResult] | None:
    """The response when some partition is unknown, or may not be written to, else None. `denied`: names of topics."""
    mirrored = {topic.name for topic in topics if image.config(TOPIC_RESOURCE, topic.name).get(MIRROR_NAME)}
    if (
        not denied
        and not mirrored
        and all(image.partition(t.name, index) is not None for t in topics for index in t.partitions)
    ):
        return None
    return _results(topics, lambda name, index: _error(image, name, index, denied, mirrored))


def _results(
    topics: list[AddPartitionsToTxnTopic], error: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, error(topic.name, index)) for index in topic.partitions],
        )
        for topic in topics
    ]


def _error(image: MetadataImage, topic: str, index: int, denied: Set[str], mirrored: Set[str]) -> ErrorCode:
    if topic in denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic in mirrored:
        return ErrorCode.POLICY_VIOLATION
    is_known = image.partition(topic, index) is not None
    return ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


ENDPOINT: ApiEndpoint[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse] = ApiEndpoint(
    handle=handle,
    authorization=(
        NeedsIf("of brokers, from version 4", lambda asked: asked.version in WITH_TRANSACTIONS, OF_NODES),
        NeedsIf(
            "of clients, up to version 3",
            lambda asked: asked.version not in WITH_TRANSACTIONS,
            Needs(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, attrgetter("v3_and_below_transactional_id")),
        ),
        _TOPICS,
    ),
    place=TRANSACTION_COORDINATORS,
    portionings=(Portioning(("transactions",), ("results_by_transaction",)),),
    most_items=10_000,
)
