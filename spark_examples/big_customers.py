"""Customers whose orders add up to a limit, to a topic, each when the limit is passed: a state machine per customer.

    python spark_examples/big_customers.py --available-now

`transformWithState` keeps a customer's total between the batches, in RocksDB, and its checkpoint is the query's. Orders that
were sent twice are dropped first, by the watermark, as in revenue_stream.py. The topic is compacted and keyed by customer: a
batch that Spark repeats after a crash writes the same records again. A StreamingQueryListener prints the progress
(streams.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from revenue_stream import unique_orders
from session import spark_session
from streams import ProgressLines, claim, run, trigger_of
from topics import ensure_table

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Totals(StatefulProcessor):
    """The total of one customer's orders."""

    def __init__(self, limit_cents: int) -> None:
        self._limit = limit_cents

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "cents bigint")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any = None
    ) -> Iterator[pd.DataFrame]:
        found = self._total.get()  # each call to the state is a message to the JVM and back
        before = int(found[0]) if found else 0
        after = before + sum(int(frame["amount_cents"].sum()) for frame in rows)
        self._total.update((after,))
        if before < self._limit <= after:
            yield pd.DataFrame({"customer_id": [key[0]]})

    def close(self) -> None:
        """Nothing is open."""


def big_customers(orders: DataFrame, limit_cents: int) -> DataFrame:
    """Returns each customer once, when the total passes the limit. The orders have a watermark."""
    by_customer = orders.select("customer_id", "amount_cents", "event_time").groupBy("customer_id")
    return by_customer.transformWithStateInPandas(
        statefulProcessor=Totals(limit_cents),
        outputStructType="customer_id string",
        outputMode="append",
        timeMode="none",
    )


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The orders.")] = "order-events",
    output_topic: Annotated[str, typer.Option(help="Made, compacted, if it is not there.")] = "big-customers",
    limit: Annotated[int, typer.Option(help="Limit of a customer's total, in cents.", min=1)] = 500_000,
    checkpoint: Annotated[Path, typer.Option(help="Where the query keeps how far it is.")] = Path("big-checkpoint"),
    available_now: Annotated[bool, typer.Option("--available-now", help="Take what is there, and end.")] = False,
    every: Annotated[str, typer.Option(help="How often to look for new orders.")] = "1 second",
) -> None:
    """Announce customers whose orders add up to a limit."""
    claim(checkpoint, bootstrap)
    ensure_table(bootstrap, output_topic)
    spark = spark_session("big-customers")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    orders = unique_orders(source.option("startingOffsets", "earliest").load())
    records = big_customers(orders, limit).select(f.col("customer_id").alias("key"), f.lit("big").alias("value"))
    sink = records.writeStream.queryName("big-customers").format("kafka").option("topic", output_topic)
    sink = sink.option("kafka.bootstrap.servers", bootstrap).option("checkpointLocation", str(checkpoint.absolute()))
    listener = ProgressLines()
    spark.streams.addListener(listener)
    try:
        run([sink.trigger(**trigger_of(available_now, every))], prints=False)
    finally:
        spark.streams.removeListener(listener)


if __name__ == "__main__":
    typer.run(main)
