"""Running streaming queries as a program: until they end or SIGTERM comes, with a line for each batch."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_LOOK_EVERY_S = 1


def trigger_of(available_now: bool, every: str) -> dict[str, Any]:
    """What `DataStreamWriter.trigger` takes."""
    return {"availableNow": True} if available_now else {"processingTime": every}


def run(sinks: Iterable[DataStreamWriter]) -> None:
    """Starts the queries and stays until all have ended. The first that fails ends the program, with its reason."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    queries = [sink.start() for sink in sinks]
    printed = {query.runId: -1 for query in queries}
    try:
        while any(query.isActive for query in queries):
            queries[0].awaitTermination(_LOOK_EVERY_S)
            for query in queries:
                printed[query.runId] = _print_batches(query, printed[query.runId])
                if failure := query.exception():
                    raise failure
    except StreamingQueryException as failure:
        sys.exit(f"{failure}")
    finally:
        for query in queries:
            query.stop()


def _print_batches(query: StreamingQuery, last: int) -> int:
    """Prints the batches after `last` that had rows. Returns the last that was printed."""
    for batch in query.recentProgress:
        if batch["batchId"] > last and batch["numInputRows"] > 0:
            last = batch["batchId"]
            print(_line(batch), flush=True)
    return last


def _line(batch: dict[str, Any]) -> str:
    line = f"{batch['name']}: batch {batch['batchId']}, {batch['numInputRows']:,} rows"
    if watermark := batch["eventTime"].get("watermark"):
        late = sum(state["numRowsDroppedByWatermark"] for state in batch["stateOperators"])
        line += f", watermark {watermark}, too late: {late}"
    return line
