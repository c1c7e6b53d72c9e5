"""A Faust application: counts the words of a topic in a table, and sends each new count to a topic.

`BOOTSTRAP=... TOPIC=... DATA=... python counter.py worker`; the changelog of the table is in Kafka.
"""

from __future__ import annotations

import os

import faust

topic_name = os.environ["TOPIC"]
app = faust.App(
    topic_name,
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    datadir=os.environ["DATA"],
    store="memory://",
    topic_partitions=2,
    topic_replication_factor=1,
    web_enabled=False,
    broker_commit_every=1,
    broker_session_timeout=10,
    broker_heartbeat_interval=1,
    consumer_auto_offset_reset="earliest",
)
words = app.topic(topic_name, key_type=str, value_type=str, value_serializer="raw")
counts_out = app.topic(f"{topic_name}-counts", key_type=str, value_type=int)
counts = app.Table("counts", default=int, partitions=2)


@app.agent(words)
async def count(stream):  # type: ignore[no-untyped-def]
    async for word, _ in stream.items():
        counts[word] += 1
        await counts_out.send(key=word, value=counts[word])


if __name__ == "__main__":
    app.main()
