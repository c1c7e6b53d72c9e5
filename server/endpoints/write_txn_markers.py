"""WriteTxnMarkers: a transaction's coordinator, or a tool, ends transactions in partitions led here.

Answered when all markers are committed. A marker for `__consumer_offsets` also applies or drops the offsets that were
committed in the transaction.

Contract: `protocol/messages/write_txn_markers.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.acls import Operation
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..access.authorization.requirements import NeedsAny
from ..access.authorization.usual_requirements import OF_NODES, on_cluster
from ..coordinators.scatter_and_gather import gather
from ..coordinators.transaction_coordinator import PRELOADED as _PRELOADED
from ..network.api_endpoint import ApiEndpoint, Cost
from ..network.portions import Portioning
from ..partitions.transaction_marker import Marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..network.call import Call
    from ..services import Services

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = _PRELOADED


def handle(services: Services, call: Call[WriteTxnMarkersRequest]) -> None:
    request = call.request
    gather(
        [partial(_write, services, marker) for marker in request.markers],
        lambda results: call.reply(WriteTxnMarkersResponse(markers=results)),
    )


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
        results = [WritableTxnMarkerTopicResult(topic, responses) for topic, responses in topics.items()]
        done(WritableTxnMarkerResult(asked.producer_id, results))

    gather(
        [partial(services.coordinators.markers().write, topic, index, marker) for topic, index in partitions], written
    )


ENDPOINT: ApiEndpoint[WriteTxnMarkersRequest, WriteTxnMarkersResponse] = ApiEndpoint(
    handle=handle,
    authorization=(NeedsAny((on_cluster(Operation.ALTER, log_denied=False), OF_NODES)),),
    portionings=(Portioning(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),),
    cost=Cost.NOTHING,
)
