"""Groups that read the orders all along, each with a member of a different client. `seen` counts the reads of each order."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

from compat_tests import access

from .kafka_python_refresh import refresh_state
from .orders import RECOVERY, TOPIC

COMMIT_MS = 500
#: Longest time until new partitions are found.
METADATA_MS = 2_000
POLL_S = 0.2
#: A poll of kafka-python that is shorter than a join may lose the join (see its FINDINGS), and joins take longer over TLS.
#: A poll ends as soon as there are records.
KAFKA_PYTHON_POLL_S = 3.0
_END_S = 60


class Reader(threading.Thread):
    """Reads until `end`; `failed` lists the errors that the client did not absorb."""

    def __init__(self, client: str, bootstrap: str) -> None:
        super().__init__(name=f"read by {client}", daemon=True)
        self.client, self.bootstrap, self.group = client, bootstrap, f"group-of-{client}"
        self.seen: Counter[str] = Counter()
        self.failed: list[str] = []
        #: The newest offset read from each partition, and when (the monotonic clock).
        self.newest: dict[int, tuple[int, float]] = {}
        self._is_over = threading.Event()

    def saw(self, partition: int, offset: int, order: bytes) -> None:
        self.seen[order.decode()] += 1
        self.newest[partition] = offset, time.monotonic()

    def state(self) -> str:
        """Describes the reader, for the message of a failure."""
        now = time.monotonic()
        newest = {index: f"{offset}, {now - at:.1f} s ago" for index, (offset, at) in sorted(self.newest.items())}
        return f"{len(self.seen)} orders read, newest offsets {newest}; {self.client_state()}; failed: {self.failed}"

    def client_state(self) -> str:
        """Describes what the client does. Called from another thread."""
        return f"{'reading' if self.is_alive() else 'ended'}"

    def run(self) -> None:
        try:
            self.read()
        except Exception as error:
            self.failed.append(f"{type(error).__name__}: {error}")

    def read(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self._is_over.set()
        self.join(_END_S)
        assert not self.is_alive(), f"{self.name} does not end"


class Billing(Reader):
    """The group of librdkafka, which can rewind."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("librdkafka", bootstrap)
        self.group = "billing"
        self._rewinds = threading.Event()

    def settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            **RECOVERY,
            **access.librdkafka(),
        }

    def read(self) -> None:
        consumer = Consumer(self.settings())
        consumer.subscribe([TOPIC])
        while not self._is_over.is_set():
            if self._rewinds.is_set():
                for place in consumer.assignment():
                    consumer.seek(TopicPartition(TOPIC, place.partition, 0))
                self._rewinds.clear()
            for message in consumer.consume(500, POLL_S):
                if message.error() is not None:
                    self.failed.append(str(message.error()))
                else:
                    self.saw(message.partition(), message.offset(), message.value())
        consumer.close()

    def rewind(self) -> None:
        """Makes the group read everything again, from the beginning."""
        self.seen.clear()
        self._rewinds.set()


class ConsumerProtocolReader(Billing):
    """A group of librdkafka with the consumer protocol (KIP-848)."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.name, self.client, self.group = "read with the consumer protocol", "librdkafka", "consumer-protocol"

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"group.protocol": "consumer"}


class KafkaPythonReader(Reader):
    _consumer: KafkaConsumer | None = None

    def read(self) -> None:
        self._consumer = consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=COMMIT_MS,
            metadata_max_age_ms=METADATA_MS,
            **access.kafka_python(),
        )
        while not self._is_over.is_set():
            # kafka-python 3.0 sometimes raises a refused connection from poll, see its FINDINGS: the next poll continues.
            with contextlib.suppress(KafkaConnectionError):
                for place, records in consumer.poll(timeout_ms=int(KAFKA_PYTHON_POLL_S * 1000)).items():
                    for record in records:
                        self.saw(place.partition, record.offset, record.value)
        consumer.close()

    def client_state(self) -> str:
        """Names what keeps a partition from being fetched: a position that awaits its reset or validation, or a pause."""
        consumer = self._consumer
        if consumer is None:
            return "no consumer yet"
        places = {
            f"{place.topic}-{place.partition}": {
                "position": state.position and state.position.offset,
                "awaits reset": state.awaiting_reset,
                "awaits validation": state.awaiting_validation,
                "paused": state.paused,
            }
            for place, state in list(consumer._subscription.assignment.items())
        }
        pending = sorted(consumer._fetcher._nodes_with_pending_fetch_requests)
        return f"{places}, a Fetch is in flight to nodes {pending}; {refresh_state(consumer)}"
