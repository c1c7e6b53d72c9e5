"""Adds revenue per minute and region to a ledger: a Kafka topic whose entries are summed up. Each batch counts once.

    python spark_examples/revenue_ledger.py                         # follows the topic until it is stopped

Reads only committed records of `order-events` (`kafka.isolation.level`), so orders of aborted transactions do not count.
Each micro-batch becomes a few entries, {"window_start", "region", "orders", "revenue_cents"}, with its increments. A
duplicate entry would count twice: no key makes it harmless, as in revenue_stream.py. So one transaction writes a batch with
its number (numbered_batches.py), and skips a batch that Spark repeats.

Kill it at any time, also with -9, or the broker: started again with the same checkpoint, it continues. Readers of the ledger
use read_committed, and sum up the entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from numbered_batches import Entry, NumberedBatches
from pyspark.sql import DataFrame, Row
from schema import parse_orders, revenue_per_minute
from session import spark_session
from streams import claim, run, trigger_of
from topics import ensure_topic


class Entries:
    """The rows of a batch as records, one partition of Spark's at a time in the driver. Each iteration begins anew."""

    def __init__(self, revenue: DataFrame) -> None:
        self._revenue = revenue

    def __iter__(self) -> Iterator[Entry]:
        return map(entry, self._revenue.toLocalIterator())


def entry(row: Row) -> Entry:
    """Returns a record with the region as its key, so that the entries of a region stay in order."""
    reported = {**row.asDict(), "window_start": row.window_start.isoformat()}
    return row.region.encode(), json.dumps(reported).encode()


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The orders.")] = "order-events",
    ledger: Annotated[str, typer.Option(help="Made if it is not there.")] = "revenue-ledger",
    checkpoint: Annotated[Path, typer.Option(help="Where the query keeps how far it is.")] = Path("ledger-checkpoint"),
    available_now: Annotated[bool, typer.Option("--available-now", help="Take what is there, and end.")] = False,
    every: Annotated[str, typer.Option(help="How often to look for new orders.")] = "1 second",
    batch: Annotated[int, typer.Option(help="The most orders that one batch takes.", min=1)] = 100_000,
) -> None:
    """Add revenue per minute and region to a ledger, exactly once."""
    claim(checkpoint, bootstrap)
    ensure_topic(bootstrap, ledger, 3)
    batches = NumberedBatches(bootstrap, ledger, f"{ledger}-writer")
    spark = spark_session("revenue-ledger")
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    committed = source.option("kafka.isolation.level", "read_committed").option("startingOffsets", "earliest")
    records = committed.option("maxOffsetsPerTrigger", batch).load()

    def add(orders: DataFrame, number: int) -> None:
        revenue = revenue_per_minute(parse_orders(orders)).persist()
        revenue.count()  # a transaction has a timeout: the rows are ready before it begins
        if not batches.add(number, Entries(revenue)):
            print(f"ledger: batch {number} was there already", flush=True)
        revenue.unpersist()

    query = records.writeStream.queryName("ledger").foreachBatch(add)
    run([query.option("checkpointLocation", str(checkpoint.absolute())).trigger(**trigger_of(available_now, every))])


if __name__ == "__main__":
    typer.run(main)
