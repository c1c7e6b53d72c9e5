"""Markers of transactions into partitions: those that are led here, for WriteTxnMarkers and the coordinator here, and those
that others lead, which are asked for it (WriteTxnMarkers, from broker to broker).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..cluster.leaders import absent_error, other_leader
from ..runtime.internal_topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from ..broker import BrokerServer


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator decided it. `transaction_version`: of the client."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


#: For other brokers to write a marker and have it replicated; it is tried again afterwards.
REQUEST_TIMEOUT_MS = 30_000
PURPOSE = "transaction-markers"


def send_marker(broker: BrokerServer, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
    """As `write_marker`, wherever the partition is led."""
    endpoint = other_leader(broker, topic, index)
    if endpoint is None:
        write_marker(broker, topic, index, marker, done)
        return
    producer_id, epoch, committed, coordinator_epoch, transaction_version = marker
    topics = [WritableTxnMarkerTopic(topic, [index])]
    asked = WritableTxnMarker(producer_id, epoch, committed, topics, coordinator_epoch, transaction_version)

    def answered(response: WriteTxnMarkersResponse | None) -> None:
        if response is None:
            done(ErrorCode.NETWORK_EXCEPTION)
        else:
            done(response.markers[0].topics[0].partitions[0].error_code)

    request = WriteTxnMarkersRequest([asked])
    broker.peers.send(endpoint, request, answered, timeout_ms=REQUEST_TIMEOUT_MS, purpose=PURPOSE)


def write_marker(broker: BrokerServer, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
    """`done` gets an error code, or 0 when the marker is committed. Of a group's offsets, its shard must hear."""
    hosted = broker.partitions.get((topic, index))
    if hosted is None:
        done(absent_error(broker, topic, index))
    elif topic == GROUP_METADATA_TOPIC:
        broker.groups.end_transaction(index, marker, done)
    else:
        result = hosted.end_transaction(marker, broker.now_ms())
        if result.error:
            done(result.error)
        else:
            hosted.when_committed(result.end_offset, done)
