"""Reads orders and writes one payment for each: `python service.py BOOTSTRAP_SERVERS`."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

#: The repair: the broker recognises a record that is sent again (KIP-98).
IDEMPOTENT = os.environ.get("PAYMENTS_IDEMPOTENT") == "1"


async def serve(bootstrap_servers: str, *, idempotent: bool = IDEMPOTENT) -> None:
    """Never returns. An order is done when its payment is written."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="payments",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=idempotent, retry_backoff_ms=50
    )
    async with consumer, producer:
        async for order in consumer:
            await producer.send_and_wait("payments", order.value, key=order.key)
            await consumer.commit()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
