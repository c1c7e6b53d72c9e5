"""aiokafka among the clients of the scenario: a sender and a group, each with its own thread and event loop."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from compat_tests import access

from .orders import CUSTOMERS, DELIVERY_MS, PAUSE_S, TOPIC, Sender
from .readers import COMMIT_MS, METADATA_MS, POLL_S, Reader


class AiokafkaSender(Sender):
    def send_all(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        # aiokafka retries a record until its request timeout.
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            enable_idempotence=True,
            linger_ms=5,
            request_timeout_ms=DELIVERY_MS,
            **access.aiokafka(),
        )
        async with producer:
            while not self.is_over:
                order = f"{self.client}-{self.sent}"
                customer = f"customer-{self.sent % CUSTOMERS}"
                reported = await producer.send(TOPIC, order.encode(), customer.encode())
                reported.add_done_callback(lambda done, order=order: self._reported(done, order))
                self.sent += 1
                await asyncio.sleep(PAUSE_S)

    def _reported(self, done: asyncio.Future[object], order: str) -> None:
        if done.cancelled() or done.exception() is not None:
            self.failed.append(f"{order}: {'cancelled' if done.cancelled() else done.exception()}")
        else:
            self.acknowledged.append(order)


class AiokafkaReader(Reader):
    _consumer: AIOKafkaConsumer | None = None

    def read(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        self._consumer = consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=COMMIT_MS,
            metadata_max_age_ms=METADATA_MS,
            **access.aiokafka(),
        )
        async with consumer:
            while not self._is_over.is_set():
                for place, records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
                    for record in records:
                        self.saw(place.partition, record.offset, record.value)

    def client_state(self) -> str:
        if self._consumer is None:
            return "no consumer yet"
        places = sorted(self._consumer.assignment())
        ends = {f"{place.topic}-{place.partition}": self._consumer.highwater(place) for place in places}
        return f"its partitions and their high watermarks are {ends}"
