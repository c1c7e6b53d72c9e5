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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ...coordinator import dead_letters as rules
from ...coordinator.dead_letters import Contents, Origin, Queue
from ...metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ..fetch.fetch_response import is_remote
from .dead_letter_contents import MOST_READ_BYTES, contents_in, read_contents
from .outbox import Delivery, Outbox, QueuePartition

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...coordinator.dead_letters import DeadLetter
    from ...protocol.messages.create_topics import CreateTopicsResponse
    from ..config.endpoint import Endpoint
    from ..controller.leaders import Leaders
    from ..coordinators.topic_creation import CreateTopics
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.remote_port import RemotePort, RemoteRecords
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node

log = logging.getLogger("odradek.groups")

TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPIES = "errors.deadletterqueue.copy.record.enable"
IS_QUEUE = "errors.deadletterqueue.group.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
CREATES: Final = "errors.deadletterqueue.auto.create.topics.enable"

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
        node: Node,
        leaders: Leaders,
        peers: Lazy[Peers],
        create_topics: CreateTopics,
        remote: RemotePort | None = None,
    ) -> None:
        self._config = node.config
        self._metadata = node.metadata
        self._clock = node.clock
        self._leaders = leaders
        self._peers = peers
        self._create_topics = create_topics
        #: Reads the original records.
        self._disk = node.pools.disk
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
        read = partial(read_contents, source.open_log(), delivery.next_offset, last, source.high_watermark, most)
        self._disk.run_then(read, partial(self._looked_up, delivery))

    def _store_read(self, delivery: Delivery, max_bytes: int, records: RemoteRecords) -> None:
        """Handles the records of the remote store, which has at least the first one of those that are left."""
        if records.error or not len(records.data):
            words = ErrorCode(records.error).name if records.error else "the remote store returned none"
            self._looked_up(delivery, RuntimeError(words))
            return
        last = min(delivery.dead_letter.last, records.next_offset - 1)
        read = partial(contents_in, records.data, delivery.next_offset, last, max_bytes)
        self._disk.run_then(read, partial(self._looked_up, delivery))

    def _looked_up(self, delivery: Delivery, contents: Contents | BaseException) -> None:
        if isinstance(contents, BaseException):
            log.warning(
                "dead-letter records of %s are written without the original records: %s", delivery.origin, contents
            )
            contents = Contents({}, delivery.dead_letter.last)
        delivery.contents = contents
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
