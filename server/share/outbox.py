"""Sends dead-letter records to one broker: one Produce request in flight, with everything added meanwhile in the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...coordinator.dead_letters import pack
from ...protocol.acks import ALL_IN_SYNC
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.records.record import encode_batch

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...coordinator.dead_letters import Contents, DeadLetter, Origin, Packed
    from ...protocol.messages.produce import PartitionProduceResponse, ProduceResponse
    from ..config.endpoint import Endpoint
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.clock import Clock

#: As in Kafka: the timeout for the ISR and for the response.
TIMEOUT_MS = 30_000
#: A request of this size gets no further dead-letter records; brokers reject requests of 100 megabytes.
MOST_REQUEST_BYTES = 16 << 20
PURPOSE = "dead letters"


class QueuePartition(NamedTuple):
    """A partition of a dead-letter queue's topic."""

    topic: str
    topic_id: bytes
    partition_index: int
    max_message_bytes: int


@dataclass(slots=True, eq=False)
class Delivery:
    """One dead-letter record until it is written or given up."""

    origin: Origin
    dead_letter: DeadLetter
    source: HostedPartition
    #: Whether it is still wanted: a former leader leaves its dead-letter records to its successor.
    is_wanted: Callable[[], bool]
    done: Callable[[], None]
    #: Everything below this offset is written.
    next_offset: int
    contents: Contents
    #: The number of consecutive failed attempts.
    tries: int = 0
    destination: QueuePartition | None = None
    packed: Packed | None = None

    def pack(self, now_ms: int, max_message_bytes: int) -> Packed:
        """Packs the next part of it."""
        self.packed = pack(self.origin, self.dead_letter, self.next_offset, self.contents, now_ms, max_message_bytes)
        return self.packed


#: An error code and message for each dead-letter record sent. The code is None when there was no response.
Report = Callable[[Delivery, "int | None", "str | None"], None]


class Outbox:
    """The dead-letter records for one broker. `report` is called with the result of each record sent."""

    def __init__(self, peers: Peers, clock: Clock, endpoint: Endpoint, report: Report) -> None:
        self._peers = peers
        self._clock = clock
        self._endpoint = endpoint
        self._report = report
        #: Bounded by the share partitions' record locks: records that are being archived count as in flight.
        self._waiting: list[Delivery] = []
        self._is_busy = False

    def add(self, delivery: Delivery) -> None:
        """Adds a dead-letter record whose destination is set."""
        self._waiting.append(delivery)
        if not self._is_busy:
            # All records added in this turn of the event loop share the request.
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        batches = self._choose()
        if not batches:
            self._is_busy = False
            return
        topics: dict[bytes, TopicProduceData] = {}
        for partition, deliveries in batches.items():
            topic_id = partition.topic_id
            topic = topics.setdefault(topic_id, TopicProduceData(name=partition.topic, topic_id=topic_id))
            topic.partition_data.append(
                PartitionProduceData(index=partition.partition_index, records=_encode(deliveries))
            )
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=TIMEOUT_MS, topic_data=list(topics.values()))
        answered = partial(self._answered, batches)
        self._peers.send(self._endpoint, request, answered, timeout_ms=TIMEOUT_MS, purpose=PURPOSE)

    def _choose(self) -> dict[QueuePartition, list[Delivery]]:
        """Chooses a batch for each partition. A batch exceeds its topic's limit only if one dead-letter record alone
        does.
        """
        batches: dict[QueuePartition, list[Delivery]] = {}
        sizes: dict[QueuePartition, int] = {}
        total = 0
        full: set[QueuePartition] = set()
        later: list[Delivery] = []
        now_ms = self._clock.now_ms()
        for delivery in filter(lambda waiting: waiting.is_wanted(), self._waiting):
            partition = delivery.destination
            assert partition is not None
            if partition in full or total >= MOST_REQUEST_BYTES:
                later.append(delivery)
                continue
            packed = delivery.pack(now_ms, partition.max_message_bytes)
            if partition in sizes and sizes[partition] + packed.size > partition.max_message_bytes:
                full.add(partition)
                later.append(delivery)
                continue
            batches.setdefault(partition, []).append(delivery)
            sizes[partition] = sizes.get(partition, 0) + packed.size
            total += packed.size
        self._waiting = later
        return batches

    def _answered(self, batches: dict[QueuePartition, list[Delivery]], response: ProduceResponse | None) -> None:
        results: dict[tuple[str | bytes, int], PartitionProduceResponse] = {}
        for topic in response.responses if response is not None else ():
            for result in topic.partition_responses:
                results[topic.name, result.index] = results[topic.topic_id, result.index] = result
        for partition, deliveries in batches.items():
            topic_id, index = partition.topic_id, partition.partition_index
            found = results.get((topic_id, index)) or results.get((partition.topic, index))
            error, words = (None, None) if found is None else (found.error_code, found.error_message)
            if response is not None and found is None:
                error = ErrorCode.UNKNOWN_SERVER_ERROR
            for delivery in deliveries:
                self._report(delivery, error, words)
        self._send()


def _encode(deliveries: list[Delivery]) -> bytes:
    records = [record for delivery in deliveries if delivery.packed is not None for record in delivery.packed.records]
    for number, record in enumerate(records):
        record.offset = number
    return encode_batch(records)
