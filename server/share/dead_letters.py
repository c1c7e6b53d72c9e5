"""Writes the records that share groups have given up to the groups' dead-letter queue topics (KIP-1191).

    send      takes a dead-letter record of a share partition led here; checks that a usable queue is configured
    look up   reads the original records again if the group wants copies; otherwise there are only headers
    place     creates a missing topic, with the configuration that marks it as a possible queue
    outbox    sends to the leader of the topic's partition, this broker or another (`Outbox`)

Transient failures are retried for a limited time. Permanent failures are logged and counted, and the record is
archived all the same: as in Kafka, a failing queue must not block a group. This module is imported with the first
dead-letter record.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...coordinator import share_partition as rules
from ...coordinator.share_partition import Content, Contents, DeadLetter, Origin, Packed, Queue, pack
from ...metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ...protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ...protocol.records.batch import iter_headers
from ...protocol.records.errors import CorruptBatch
from ...protocol.records.record import Record, decode_batch, encode_batch
from ...storage.log.log import Log, OffsetOutOfRange
from ..data_path.fetch import is_remote
from ..partitions.hosted_partition import ALL_IN_SYNC

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.messages.topics import CreateTopicsResponse
    from ..config.broker_config import BrokerConfig
    from ..config.listeners import Endpoint
    from ..controller.cluster_view import Leaders
    from ..coordinators.topic_creation import CreateTopics
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.remote_port import RemotePort, RemoteRecords
    from ..runtime.clock import Clock
    from ..runtime.subsystem import Lazy, MetadataCache
    from ..runtime.thread_pools import ThreadPool


# Reads the original records of dead-letter records again, from the log where they still exist. Runs on a thread.


#: As in Kafka: most dead-letter records are for one record.
MOST_READ_BYTES = 1 << 20


def read_contents(log: Log, first: int, last: int, high_watermark: int, max_bytes: int) -> Contents:
    """Reads keys and values from `first` to `last`, or as many as fit in `max_bytes` (of the queue's own batches)
    together.

    A transaction marker has both, as in Kafka. Records that are too large when decompressed, or deleted by now, are
    left out. Raises OSError and BatchError.
    """
    return _contents(_records(log, first, last, high_watermark, max_bytes), last, max_bytes)


def contents_in(data: memoryview | bytes, first: int, last: int, max_bytes: int) -> Contents:
    """Returns the same of batches that the remote store returned. Raises BatchError."""
    return _contents(_records_in(data, first, last, max_bytes), last, max_bytes)


def _contents(records: Iterable[Record], last: int, max_bytes: int) -> Contents:
    found: dict[int, Content] = {}
    size = 0
    for record in records:
        record_bytes = len(record.key or b"") + len(record.value or b"")
        if record_bytes > max_bytes:
            continue
        size += record_bytes
        if size > max_bytes:
            return Contents(found, record.offset - 1)
        found[record.offset] = Content(record.key, record.value)
    return Contents(found, last)


def _records(log: Log, first: int, last: int, high_watermark: int, max_bytes: int) -> Iterator[Record]:
    while first <= last:
        try:
            read = log.read(first, MOST_READ_BYTES, high_watermark)
        except OffsetOutOfRange:
            return
        data = read.bytes()
        if not data:
            return
        yield from _records_in(data, first, last, max_bytes)
        first = max(first + 1, read.next_offset)


def _records_in(data: memoryview | bytes, first: int, last: int, max_bytes: int) -> Iterator[Record]:
    for position, header in iter_headers(data):
        if header.base_offset <= last:
            try:
                records = decode_batch(data, position, header, max_bytes)
            except CorruptBatch:
                continue
            yield from (record for record in records if first <= record.offset <= last)


# Sends dead-letter records to one broker: one Produce request in flight, with everything added meanwhile in the next.


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
        results: dict[tuple[str | bytes, int], Any] = {}
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


log = logging.getLogger("odradek.groups")

TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPIES = "errors.deadletterqueue.copy.record.enable"
IS_QUEUE = "errors.deadletterqueue.group.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
CREATES = "errors.deadletterqueue.auto.create.topics.enable"

#: Another node is creating the topic, or the controller is not reachable yet.
_CREATED_LATER = (
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
)
#: The first error is Kafka's. The others come from a leader that has not yet learned of a topic that was just created.
#: Kafka gives the dead-letter record up in that case.
_WRITTEN_LATER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(slots=True)
class Counters:
    """Counters of one group. They only grow."""

    records: int = 0
    produces: int = 0
    failed_produces: int = 0


class DeadLetters:
    """Writes dead-letter records to the queues of share groups, and counts them by group."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        clock: Clock,
        leaders: Leaders,
        peers: Lazy[Peers],
        create_topics: CreateTopics,
        disk: ThreadPool,
        remote: RemotePort | None = None,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._clock = clock
        self._leaders = leaders
        self._peers = peers
        self._create_topics = create_topics
        #: Reads the original records.
        self._disk = disk
        self._remote = remote
        self._outboxes: dict[Endpoint, Outbox] = {}
        #: Topics that are being created, and the dead-letter records that wait for them.
        self._creating: dict[str, list[Delivery]] = {}
        #: Counters by group.
        self.counters: dict[str, Counters] = {}

    def send(
        self,
        group_id: str,
        source: HostedPartition,
        dead_letter: DeadLetter,
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """Sends a dead-letter record. `done` is called later, when the record is written or cannot be written. It is
        never called when the record is no longer wanted.
        """
        origin = Origin(group_id, source.topic, source.index)
        delivery = Delivery(
            origin, dead_letter, source, is_wanted, done, dead_letter.first, Contents({}, dead_letter.last)
        )
        why = rules.validation_error(group_id, self._queue(group_id))
        if why is not None:
            self._give_up(delivery, why)
        else:
            self._look_up(delivery)

    # Configuration.

    def _queue(self, group_id: str) -> Queue:
        image, config = self._metadata.image, self._config
        topic = image.config(GROUP_RESOURCE, group_id).get(TOPIC_NAME, "")
        marked = image.config(TOPIC_RESOURCE, topic).get(IS_QUEUE, "false")
        return Queue(
            topic,
            prefix=config.get(PREFIX),
            is_there=image.topic(topic) is not None,
            is_enabled=marked.lower() == "true",
            is_created=config.get(CREATES),
        )

    def _max_message_bytes(self, topic: str) -> int:
        overrides = self._metadata.image.config(TOPIC_RESOURCE, topic)
        return self._config.topic_log_config(overrides).max_message_bytes

    # The original records.

    def _look_up(self, delivery: Delivery) -> None:
        group = self._metadata.image.config(GROUP_RESOURCE, delivery.origin.group_id)
        if group.get(COPIES, "false").lower() != "true":
            self._choose_destination(delivery)
            return
        last, source = delivery.dead_letter.last, delivery.source
        most = self._max_message_bytes(group.get(TOPIC_NAME, ""))
        if self._remote is not None and is_remote(source, delivery.next_offset):
            found = partial(self._store_read, delivery, most)
            self._remote.read(source, delivery.next_offset, MOST_READ_BYTES, isolated=False, done=found)
            return
        read = partial(read_contents, source.log, delivery.next_offset, last, source.high_watermark, most)
        self._disk.run_then(read, partial(self._looked_up, delivery))

    def _store_read(self, delivery: Delivery, max_bytes: int, found: RemoteRecords) -> None:
        """Handles the records of the remote store, which has at least the first one of those that are left."""
        if found.error or not len(found.data):
            words = ErrorCode(found.error).name if found.error else "the remote store returned none"
            self._looked_up(delivery, RuntimeError(words))
            return
        last = min(delivery.dead_letter.last, found.next_offset - 1)
        read = partial(contents_in, found.data, delivery.next_offset, last, max_bytes)
        self._disk.run_then(read, partial(self._looked_up, delivery))

    def _looked_up(self, delivery: Delivery, found: Contents | BaseException) -> None:
        if isinstance(found, BaseException):
            log.warning(
                "dead-letter records of %s are written without the original records: %s", delivery.origin, found
            )
            found = Contents({}, delivery.dead_letter.last)
        delivery.contents = found
        self._choose_destination(delivery)

    # Destination.

    def _choose_destination(self, delivery: Delivery) -> None:
        """Chooses the destination. The configuration may have changed since the last attempt."""
        if not delivery.is_wanted():
            return
        queue = self._queue(delivery.origin.group_id)
        why = rules.validation_error(delivery.origin.group_id, queue)
        if why is not None:
            self._give_up(delivery, why)
        elif not queue.is_there:
            self._create(queue.topic, delivery)
        else:
            self._hand_over(queue.topic, delivery)

    def _hand_over(self, topic: str, delivery: Delivery) -> None:
        found = self._metadata.image.topics.by_name[topic]
        index = rules.destination(delivery.origin.partition, len(found.partitions))
        endpoint = self._leaders.broker_endpoint(found.partitions[index].leader)
        if endpoint is None:
            self._try_again(delivery, f"{topic}-{index} has no leader")
            return
        delivery.destination = QueuePartition(topic, found.id, index, self._max_message_bytes(topic))
        outbox = self._outboxes.get(endpoint)
        if outbox is None:
            outbox = self._outboxes[endpoint] = Outbox(self._peers(), self._clock, endpoint, self._sent)
        outbox.add(delivery)

    def _create(self, topic: str, delivery: Delivery) -> None:
        if topic in self._creating:
            self._creating[topic].append(delivery)
            return
        self._creating[topic] = [delivery]
        # Dead-letter records carry the time at which they were written, whatever the broker's default is.
        configs = [CreatableTopicConfig(IS_QUEUE, "true"), CreatableTopicConfig("message.timestamp.type", "CreateTime")]
        created = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, configs=configs)
        request = CreateTopicsRequest(topics=[created])
        self._create_topics(request, partial(self._created, topic))

    def _created(self, topic: str, response: CreateTopicsResponse) -> None:
        (result,) = response.topics
        for delivery in self._creating.pop(topic):
            if not result.error_code:
                self._choose_destination(delivery)
            elif result.error_code in _CREATED_LATER:
                self._try_again(delivery, result.error_message or ErrorCode(result.error_code).name)
            else:
                self._give_up(delivery, f"{topic} could not be created: {result.error_message}")

    # Results.

    def _sent(self, delivery: Delivery, error: int | None, words: str | None) -> None:
        counters = self.counters.setdefault(delivery.origin.group_id, Counters())
        counters.produces += 1
        packed = delivery.packed
        assert packed is not None
        if error == ErrorCode.NONE:
            counters.records += len(packed.records)
            delivery.next_offset, delivery.tries = packed.next_offset, 0
            if delivery.next_offset > delivery.dead_letter.last:
                delivery.done()
            else:
                self._look_up(delivery)
            return
        why = words or ("no response" if error is None else ErrorCode(error).name)
        if error is not None and error not in _WRITTEN_LATER:
            counters.failed_produces += 1
            self._give_up(delivery, why)
        elif not self._try_again(delivery, why):
            counters.failed_produces += 1

    def _try_again(self, delivery: Delivery, why: str) -> bool:
        """Schedules another attempt, unless there were too many."""
        delivery.tries += 1
        if delivery.tries >= rules.MOST_TRIES:
            self._give_up(delivery, why)
            return False
        wait_ms = rules.backoff_ms(delivery.tries, random.random())
        self._clock.call_at(self._clock.now_ms() + wait_ms, partial(self._choose_destination, delivery))
        return True

    def _give_up(self, delivery: Delivery, why: str) -> None:
        origin, dead_letter = delivery.origin, delivery.dead_letter
        log.error(
            "share group %s: offsets %d to %d of %s-%d are archived without a dead-letter record: %s",
            origin.group_id,
            delivery.next_offset,
            dead_letter.last,
            origin.topic,
            origin.partition,
            why,
        )
        asyncio.get_running_loop().call_soon(delivery.done)
