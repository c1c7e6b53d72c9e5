"""A FastStream service, `service.py KIND BOOTSTRAP TOPIC GROUP`: reads TOPIC, writes TOPIC-out and TOPIC-batches."""

from __future__ import annotations

import asyncio
import json
import sys

from faststream import FastStream

kind, bootstrap, topic, group = sys.argv[1:]
if kind == "aiokafka":
    from faststream.kafka import KafkaBroker
else:
    from faststream.confluent import KafkaBroker

broker = KafkaBroker(bootstrap)
app = FastStream(broker)


@broker.subscriber(topic, group_id=group, auto_offset_reset="earliest")
@broker.publisher(f"{topic}-out")
async def double(number: int) -> dict[str, int]:
    return {"number": number, "double": number * 2}


@broker.subscriber(f"{topic}-out", group_id=f"{group}-batches", auto_offset_reset="earliest", batch=True)
async def in_batches(numbers: list[dict[str, int]]) -> None:
    await broker.publish(json.dumps([one["number"] for one in numbers]), f"{topic}-batches")


if __name__ == "__main__":
    asyncio.run(app.run())
