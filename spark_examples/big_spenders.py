"""Names each customer once whose orders come to more than a limit: `transformWithState`, tested without Spark.

    python spark_examples/big_spenders.py --checkpoint /tmp/big-spenders --limit-cents 500000 --available-now

Orders that are sent twice count once. `BigSpenders` is the state of one customer; spark_examples/tests/big_spender_rules.py
tests it by Spark's `TwsTester`, which needs PySpark 4.2, and no JVM. The query needs Spark 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COLUMNS = "customer_id string, amount_cents long"


class BigSpenders(StatefulProcessor):
    """State of a customer: the ids of the orders, their sum, and whether the customer was named."""

    def __init__(self, limit_cents: int) -> None:
        self._limit_cents = limit_cents

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._orders = handle.getMapState("orders", "order_id string", "amount_cents long")
        self._total = handle.getValueState("total", "amount_cents long, is_named boolean")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: object) -> Iterator[Row]:
        amount_cents, is_named = self._total.get() if self._total.exists() else (0, False)
        for row in rows:
            if not self._orders.containsKey((row.order_id,)):
                self._orders.updateValue((row.order_id,), (row.amount_cents,))
                amount_cents += row.amount_cents
        is_over = amount_cents > self._limit_cents
        self._total.update((amount_cents, is_named or is_over))
        if is_over and not is_named:
            yield Row(customer_id=key[0], amount_cents=amount_cents)

    def close(self) -> None:
        """Does nothing: the state is Spark's."""


def big_spenders(orders: DataFrame, limit_cents: int) -> DataFrame:
    """Rows: `customer_id`, and `amount_cents` at the end of the batch that passed the limit; one for each customer."""
    by_customer = orders.select("customer_id", "order_id", "amount_cents").groupBy("customer_id")
    return by_customer.transformWithState(BigSpenders(limit_cents), COLUMNS, "Append", "None")


def main(
    checkpoint: Annotated[Path, typer.Option(help="where Spark keeps the progress and the state")],
    bootstrap: Annotated[str, typer.Option()] = "127.0.0.1:9092",
    source: Annotated[str, typer.Option(help="the topic of generate_orders.py")] = "order-events",
    target: Annotated[
        str, typer.Option(help="the topic to write; it is made where it does not exist")
    ] = "big-spenders",
    limit_cents: Annotated[int, typer.Option(min=1)] = 500_000,
    available_now: Annotated[bool, typer.Option(help="end when all records are read")] = False,
    every: Annotated[str, typer.Option(help="time between micro-batches")] = "10 seconds",
) -> None:
    from schema import parse_orders
    from session import spark_session
    from streams import run, trigger_of
    from topics import ensure_topic

    ensure_topic(bootstrap, target, 1)
    spark = spark_session("big-spenders")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    records = records.option("subscribe", source).option("startingOffsets", "earliest")
    found = big_spenders(parse_orders(records.load()), limit_cents)
    written = found.selectExpr("customer_id as key", "to_json(struct(customer_id, amount_cents)) as value")
    sink = written.writeStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    sink = sink.option("checkpointLocation", str(checkpoint)).queryName("big-spenders")
    run([sink.trigger(**trigger_of(available_now, every))])


if __name__ == "__main__":
    typer.run(main)
