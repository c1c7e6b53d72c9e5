"""Writes the markers of transactions into partitions.

Markers for partitions led by this broker come from WriteTxnMarkers requests and from this broker's coordinator. For
partitions led by other brokers, the coordinator sends those brokers WriteTxnMarkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..runtime.internal_topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from ..cluster.leaders import Leaders
    from ..partitions.partitions import Partitions
    from ..partitions.transaction_marker import Marker
    from ..peers.peers import Peers
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .coordinator_driver import GroupDriver

#: The time for another broker to write and replicate a marker; afterwards the coordinator retries.
REQUEST_TIMEOUT_MS = 30_000
PURPOSE = "transaction-markers"


class TransactionMarkers:
    """Writes markers into the logs of partitions led here, and has the leaders of other partitions write theirs."""

    def __init__(
        self, partitions: Partitions, clock: Clock, groups: GroupDriver, leaders: Leaders, peers: Lazy[Peers]
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._groups = groups
        self._leaders = leaders
        self._peers = peers

    def send(self, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker as `write` does, on the partition's leader wherever it is."""
        endpoint = self._leaders.other_leader(topic, index)
        if endpoint is None:
            self.write(topic, index, marker, done)
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
        self._peers().send(endpoint, request, answered, timeout_ms=REQUEST_TIMEOUT_MS, purpose=PURPOSE)

    def write(self, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker into a partition led here. `done` gets an error code, or 0 when the marker is committed. A
        marker for a group's offsets also goes to the group's shard.
        """
        hosted = self._partitions.get((topic, index))
        if hosted is None:
            done(self._leaders.absent_error(topic, index))
        elif topic == GROUP_METADATA_TOPIC:
            self._groups.end_transaction(index, marker, done)
        else:
            result = hosted.end_transaction(marker, self._clock.now_ms())
            if result.error:
                done(result.error)
            else:
                hosted.when_committed(result.end_offset, done)
