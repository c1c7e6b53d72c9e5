"""kafka-python, aiokafka and librdkafka for the fault table: each produces a record, or consumes until it has read LAST.

Until then a consumer sends heartbeats.
"""

from __future__ import annotations

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

DEADLINE_S = 120
#: The value of the record after which a consumer commits and ends.
LAST = b"the last order"


class KafkaPython:
    name = "kafka-python"

    def produce(self, address: str) -> str:
        producer = KafkaProducer(bootstrap_servers=address, client_id=self.name, retry_backoff_ms=20)
        try:
            producer.send("orders", b"order 1").get(timeout=DEADLINE_S)
            return "ok"
        except KafkaError as failed:
            return type(failed).__name__
        finally:
            producer.close(timeout=1)

    def consume(self, address: str) -> str:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            client_id=self.name,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            retry_backoff_ms=20,
        )
        # One poll lasts until the consumer has joined: 3.0.12 loses a second join that outlives its poll. New metadata
        # started that join; the leader's assignment clears its reason, and no later poll awaits it (`need_rejoin`).
        polled, until = consumer.poll(timeout_ms=DEADLINE_S * 1000), time.monotonic() + DEADLINE_S
        while not (seen := any(one.value == LAST for records in polled.values() for one in records)):
            if time.monotonic() > until:
                break
            polled = consumer.poll(timeout_ms=50)
        consumer.commit()
        consumer.close()
        return "ok" if seen else "nothing"


class AioKafka:
    name = "aiokafka"

    def produce(self, address: str) -> str:
        return asyncio.run(self._produce(address))

    def consume(self, address: str) -> str:
        return asyncio.run(self._consume(address))

    async def _produce(self, address: str) -> str:
        producer = AIOKafkaProducer(bootstrap_servers=address, client_id=self.name, retry_backoff_ms=20)
        async with producer:
            try:
                await producer.send_and_wait("orders", b"order 1")
                return "ok"
            except AioKafkaError as failed:
                return type(failed).__name__

    async def _consume(self, address: str) -> str:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=address,
            client_id=self.name,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            retry_backoff_ms=20,
        )
        async with consumer:
            async with asyncio.timeout(DEADLINE_S):
                while (await consumer.getone()).value != LAST:
                    pass
            await consumer.commit()
        return "ok"


class LibRdKafka:
    name = "librdkafka"

    def produce(self, address: str) -> str:
        reported: list[str] = []

        def delivered(error: object, message: object) -> None:
            reported.append("ok" if error is None else error.name())  # type: ignore[attr-defined]

        producer = Producer(
            {"bootstrap.servers": address, "client.id": self.name, "retry.backoff.ms": 20, "linger.ms": 0}
        )
        producer.produce("orders", b"order 1", on_delivery=delivered)
        producer.flush(DEADLINE_S)
        return reported[0] if reported else "nothing"

    def consume(self, address: str) -> str:
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "client.id": self.name,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
                "retry.backoff.ms": 20,
                "coordinator.query.interval.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 20,
            }
        )
        consumer.subscribe(["orders"])
        until, seen = time.monotonic() + DEADLINE_S, False
        while not seen and time.monotonic() < until:
            message = consumer.poll(0.05)
            seen = message is not None and message.error() is None and message.value() == LAST
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as failed:
            return str(failed.args[0].name())
        finally:
            consumer.close()
        return "ok" if seen else "nothing"
