"""Runs streaming queries as a program: until they end or SIGTERM comes, with a line for each batch."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_LOOK_EVERY_S = 1


def trigger_of(available_now: bool, every: str) -> dict[str, Any]:
    """Returns the arguments of `DataStreamWriter.trigger`."""
    return {"availableNow": True} if available_now else {"processingTime": every}


def run(sinks: Iterable[DataStreamWriter], *, prints: bool = True) -> None:
    """Starts the queries and waits until all have ended, or SIGTERM or Ctrl-C stops them. The first
    failure of a query ends the program with its reason. `prints`: without it, a listener shows the batches (progress.py)."""
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
