"""Writes the markers of transactions into partitions.

Markers for partitions led by this broker come from WriteTxnMarkers requests and from this broker's coordinator. For
partitions led by other brokers, the coordinator sends those brokers WriteTxnMarkers.
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
from ..runtime.internal_topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from ..node import Node


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator decided it. `transaction_version`: the client's version."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


#: The time for another broker to write and replicate a marker; afterwards the coordinator retries.
REQUEST_TIMEOUT_MS = 30_000
PURPOSE = "transaction-markers"


def send_marker(broker: Node, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
    """Writes a marker as `write_marker` does, on the partition's leader wherever it is."""
    endpoint = broker.leaders.other_leader(topic, index)
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
    broker.peers().send(endpoint, request, answered, timeout_ms=REQUEST_TIMEOUT_MS, purpose=PURPOSE)


def write_marker(broker: Node, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
    """Writes a marker. `done` gets an error code, or 0 when the marker is committed. A marker for a group's offsets
    also goes to the group's shard.
    """
    hosted = broker.partitions.get((topic, index))
    if hosted is None:
        done(broker.leaders.absent_error(topic, index))
    elif topic == GROUP_METADATA_TOPIC:
        broker.groups.end_transaction(index, marker, done)
    else:
        result = hosted.end_transaction(marker, broker.now_ms())
        if result.error:
            done(result.error)
        else:
            hosted.when_committed(result.end_offset, done)
