"""WriteTxnMarkers (key 27), versions 1-2: a transaction's coordinator, or a tool, ends transactions in partitions led here.

Answered when all markers are committed. A marker for `__consumer_offsets` also applies or drops the offsets that were
committed in the transaction.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.acls import Operation
from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..api.authorization import denies_on_cluster
from ..partitions.transaction_marker import Marker
from ..runtime.gather import gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..network.call import Call
    from ..services import Services


def handle(services: Services, call: Call) -> WriteTxnMarkersResponse | None:
    request: WriteTxnMarkersRequest = call.request
    if denies_on_cluster(services, call, Operation.ALTER, log_denied=False) and denies_on_cluster(
        services, call, Operation.CLUSTER_ACTION
    ):
        return WriteTxnMarkersResponse(markers=list(map(_denied, request.markers)))
    gather(
        [partial(_write, services, marker) for marker in request.markers],
        lambda results: call.reply(WriteTxnMarkersResponse(markers=results)),
    )
    return None


def _denied(asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    topics = [
        WritableTxnMarkerTopicResult(
            topic.name, [WritableTxnMarkerPartitionResult(index, error) for index in topic.partition_indexes]
        )
        for topic in asked.topics
    ]
    return WritableTxnMarkerResult(asked.producer_id, topics)


def _write(services: Services, asked: WritableTxnMarker, done: Callable[[WritableTxnMarkerResult], None]) -> None:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]

    def written(errors: list[int]) -> None:
        topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), error in zip(partitions, errors, strict=True):
            topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(index, error))
        results = [WritableTxnMarkerTopicResult(topic, answers) for topic, answers in topics.items()]
        done(WritableTxnMarkerResult(asked.producer_id, results))

    gather(
        [partial(services.transaction_markers().write, topic, index, marker) for topic, index in partitions], written
    )
