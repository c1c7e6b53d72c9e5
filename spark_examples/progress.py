"""A listener that prints a line for each batch of each query: `spark.streams.addListener(ProgressLines())`."""

from __future__ import annotations

import json

from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)
from streams import line_of, rows_of


class ProgressLines(StreamingQueryListener):
    """Spark calls it on a thread of its own, after the batch: it slows no query."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        print(f"{event.name or event.id}: started", flush=True)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        batch = json.loads(event.progress.json)
        if rows_of(batch):
            line = f"{line_of(batch)}, {event.progress.processedRowsPerSecond:,.0f} rows/s"
            print(f"{line}, behind: {behind(batch):,}", flush=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Prints nothing: no record came."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        failure = f" by {event.exception.splitlines()[0]}" if event.exception else ""
        print(f"query {event.id}: ended{failure}", flush=True)


def behind(batch: dict) -> int:
    """Returns the number of offsets that the sources had and the batch did not take."""
    found = 0
    for source in batch["sources"]:
        latest, end = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
        found += sum(offset - end.get(place, offset) for place, offset in latest.items())
    return found


def _offsets(text: dict | str | None) -> dict[tuple[str, str], int]:
    topics = json.loads(text) if isinstance(text, str) else text
    topics = topics.get("offsets", topics) if isinstance(topics, dict) else {}
    return {(topic, one): offset for topic, partitions in topics.items() for one, offset in partitions.items()}
