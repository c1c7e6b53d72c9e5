"""Runs streaming queries as a program: until they end or SIGTERM comes, with a line for each batch, or with a listener that
prints one: `spark.streams.addListener(ProgressLines())`. A checkpoint notes its cluster: on another cluster Spark would
report that all offsets changed.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

_LOOK_EVERY_S = 1
#: The file of a checkpoint that has the id of the cluster.
_NOTE = "cluster-id"
_TIMEOUT_S = 30


def trigger_of(available_now: bool, every: str) -> dict[str, Any]:
    """Returns the arguments of `DataStreamWriter.trigger`."""
    return {"availableNow": True} if available_now else {"processingTime": every}


def run(sinks: Iterable[DataStreamWriter], *, prints: bool = True) -> None:
    """Starts the queries and waits until all have ended, or SIGTERM or Ctrl-C stops them. The first
    failure of a query ends the program with its reason. `prints`: without it, a listener shows the batches."""
    stop = _asked_to_stop()
    queries = [sink.start() for sink in sinks]
    printed = {query.runId: -1 for query in queries}
    try:
        while not stop.is_set() and (active := [query for query in queries if query.isActive]):
            active[0].awaitTermination(_LOOK_EVERY_S)
            _report(queries, printed, prints)
        _report(queries, printed, prints)
    except StreamingQueryException as failure:
        sys.exit(f"{failure}")
    finally:
        for query in queries:
            query.stop()


def _asked_to_stop() -> Event:
    """Returns an event that a signal sets. An exception out of the handler could end a call to the JVM halfway, and the
    next call would take the response of that call."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _report(queries: list[StreamingQuery], printed: dict[str, int], prints: bool) -> None:
    """Prints the batches that had rows and were not printed yet. Raises the failure of a query that failed."""
    for query in queries:
        for progress in query.recentProgress if prints else ():
            batch = json.loads(progress.json)
            if batch["batchId"] > printed[query.runId] and rows_of(batch):
                printed[query.runId] = batch["batchId"]
                print(line_of(batch), flush=True)
        if failure := query.exception():
            raise failure


def rows_of(batch: dict[str, Any]) -> int:
    """Returns the number of rows that a batch read. Spark Connect gives no sum, and a progress without keys."""
    return sum(source["numInputRows"] for source in batch["sources"])


def line_of(batch: dict[str, Any]) -> str:
    """Returns a batch's progress as a line."""
    line = f"{batch['name']}: batch {batch['batchId']}, {rows_of(batch):,} rows"
    if watermark := batch.get("eventTime", {}).get("watermark"):
        late = sum(state["numRowsDroppedByWatermark"] for state in batch["stateOperators"])
        line += f", watermark {watermark}, too late: {late}"
    return line


def claim(checkpoint: Path, bootstrap: str) -> None:
    """Notes the cluster in a checkpoint. Ends the program with a line if the checkpoint belongs to a different cluster."""
    cluster_id = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=_TIMEOUT_S).cluster_id
    note = checkpoint / _NOTE
    if not note.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{cluster_id}\n", encoding="utf-8")
        return
    known = note.read_text(encoding="utf-8").strip()
    if known != cluster_id:
        sys.exit(
            f"{checkpoint} belongs to cluster {known}, and {bootstrap} is cluster {cluster_id}: delete {checkpoint} and the "
            "tables written with it, or name another folder with --checkpoint"
        )


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
