"""Records that are written to one partition in their order, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...client.user_errors import UserError
from ...protocol.records.record import Record
from ..client.producer_ids import request_producer_id

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 1 << 20,
    "message.max.bytes": 100 << 20,
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": 100_000,
}
_POLL_EVERY = 1000


class Sending:
    """A producer for one partition. Raises UserError with the first error of a delivery."""

    def __init__(self, connection: Connection, topic: str, partition: int) -> None:
        from confluent_kafka import Producer

        settings = _SETTINGS | connection.librdkafka()
        self._producer = Producer({**settings, "on_delivery": self._delivered})
        request_producer_id(self._producer, settings, topic)
        self._topic = topic
        self._partition = partition
        self._sent = 0
        self._failed: KafkaError | None = None

    def send(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, self._partition,
                    timestamp=max(0, record.timestamp), headers=[*record.headers] or None,
                )  # fmt: skip
                break
            except BufferError:  # the queue is full: the brokers are slower
                self._producer.poll(0.1)
                self._raise_failed()
        self._sent += 1
        if self._sent % _POLL_EVERY == 0:
            self._producer.poll(0)
            self._raise_failed()

    def flush(self) -> None:
        """Waits until everything is written."""
        while self._producer.flush(1.0):
            self._raise_failed()
        self._raise_failed()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _raise_failed(self) -> None:
        if self._failed is not None:
            raise UserError(f"{self._topic}-{self._partition}: {self._failed.str()}")
