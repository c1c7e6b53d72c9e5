"""Transaction markers: written by the leaders of the partitions at a coordinator's request (KIP-98).

Markers for partitions led by this broker come from WriteTxnMarkers requests and from this broker's coordinator. For
partitions led by other brokers, the coordinator sends those brokers WriteTxnMarkers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...metadata.internal_topics import GROUP_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..partitions.append_result import AppendResult
from ..partitions.hosted_partition import HostedPartition
from ..partitions.transaction_marker import Marker
from .group_driver import GroupDriver

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..controller.leaders import Leaders
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy

log = logging.getLogger("odradek.transactions")
#: The time for another broker to write and replicate a marker; afterwards the coordinator retries.
MARKERS_TIMEOUT_MS = 30_000
MARKERS_PURPOSE = "transaction-markers"
#: The markers of one write: 8 KB.
MOST_MARKERS = 100
Asked = tuple[Marker, Callable[[int], None]]


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
        #: The markers to write in the next turn, by partition, and the calls that follow.
        self._due: dict[HostedPartition, list[Asked]] = {}
        self._then: list[Callable[[], None]] = []

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
        self._peers().send(endpoint, request, answered, timeout_ms=MARKERS_TIMEOUT_MS, purpose=MARKERS_PURPOSE)

    def write(self, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker into a partition led here, in the next turn. `done` gets an error code, or 0 when the marker is
        committed. A marker for a group's offsets also goes to the group's shard.
        """
        hosted = self._partitions.get((topic, index))
        if hosted is None:
            done(self._leaders.absent_error(topic, index))
        elif topic == GROUP_METADATA_TOPIC:
            self._groups.end_transaction(index, marker, done)
        else:
            if not self._due:
                asyncio.get_running_loop().call_soon(self._write_due)
            self._due.setdefault(hosted, []).append((marker, done))

    def when_written(self, then: Callable[[], None]) -> None:
        """Calls `then` once the markers that are due here have been written; immediately if there are none."""
        if self._due:
            self._then.append(then)
        else:
            then()

    def _write_due(self) -> None:
        """Writes the markers that came in one turn: those of a partition together, whatever their coordinators."""
        due, self._due = self._due, {}
        then, self._then = self._then, []
        for hosted, asked in due.items():
            for part in of_distinct_producers(asked):
                self._write_some(hosted, part)
        for call in then:
            _contained(call, "a reply")

    def _write_some(self, hosted: HostedPartition, asked: list[Asked]) -> None:
        try:
            results = hosted.end_transactions([marker for marker, _ in asked], self._clock.now_ms())
        except Exception:
            log.exception("a bug: markers could not be written into %s", hosted.name)
            results = [AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR)] * len(asked)
        for (_, done), result in zip(asked, results, strict=True):
            if result.error:
                _contained(partial(done, result.error), hosted.name)
            else:
                _contained(partial(hosted.when_committed, result.end_offset, done), hosted.name)


def _contained(call: Callable[[], None], what: str) -> None:
    """Isolates failures: the markers of other transactions are still written."""
    try:
        call()
    except Exception:
        log.exception("a bug: the end of a transaction failed: %s", what)


def of_distinct_producers(asked: Sequence[Asked]) -> Iterator[list[Asked]]:
    """Yields the markers in their order, in parts with one of each producer: the first of two decides on the second."""
    part: list[Asked] = []
    producers: set[int] = set()
    for one in asked:
        if one[0].producer_id in producers or len(part) == MOST_MARKERS:
            yield part
            part, producers = [], set()
        part.append(one)
        producers.add(one[0].producer_id)
    if part:
        yield part
