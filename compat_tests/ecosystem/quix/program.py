"""A Quix Streams application, `program.py BOOTSTRAP TOPIC GROUP STATE`: sums by key and in windows, exactly once."""

from __future__ import annotations

import sys
from datetime import timedelta

from quixstreams import Application

bootstrap, topic, group, state_dir = sys.argv[1:]
app = Application(
    broker_address=bootstrap,
    consumer_group=group,
    state_dir=state_dir,
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=0.5,
    loglevel="INFO",
)
source = app.topic(topic, value_deserializer="json")
sums = app.topic(f"{topic}-sums", value_serializer="json")
windows = app.topic(f"{topic}-windows", value_serializer="json")


def add(value, state):  # type: ignore[no-untyped-def]
    total = state.get("total", 0) + value["amount"]
    state.set("total", total)
    return {"total": total, "number": value["number"]}


frame = app.dataframe(source)
frame.apply(add, stateful=True).to_topic(sums)
frame.apply(lambda value: value["amount"]).tumbling_window(timedelta(seconds=10)).sum().current().to_topic(windows)
app.run(timeout=8)
