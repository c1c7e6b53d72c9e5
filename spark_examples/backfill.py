"""Counts the whole topic again from its first record: a new table, and, on demand, corrections to the revenue topic.

    python spark_examples/backfill.py --table revenue-again.parquet
    python spark_examples/backfill.py --output-topic revenue

For use after a fix of the stream, or for a new table. It is a batch job: no order is too late, duplicates are found however
far apart they are, and every minute is complete, the last ones included. A second run replaces the table. The topic gets
the same values under the same keys, so the last value of a key is right after any number of runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from schema import as_records, parse_orders, revenue_per_minute, with_date
from session import spark_session
from topics import between_offsets, ensure_table


def replay(spark: SparkSession, bootstrap: str, topic: str, min_partitions: int) -> DataFrame:
    """Returns all records that the topic holds now, with partitions cut into about `min_partitions` equal pieces."""
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return source.options(**between_offsets(topic)).option("minPartitions", min_partitions).load()


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The orders.")] = "order-events",
    table: Annotated[Path | None, typer.Option(help="A directory of Parquet files, replaced.")] = None,
    output_topic: Annotated[str | None, typer.Option(help="Made, compacted, if it is not there.")] = None,
    min_partitions: Annotated[int, typer.Option(help="In about how many pieces to read.", min=1)] = 6,
) -> None:
    """Count revenue per minute and region of all orders in the topic."""
    if table is None and output_topic is None:
        raise typer.BadParameter("say where to: --table, --output-topic, or both")
    spark = spark_session("backfill")
    orders = parse_orders(replay(spark, bootstrap, topic, min_partitions)).dropDuplicates(["order_id"])
    revenue = revenue_per_minute(orders).persist()
    if table is not None:
        with_date(revenue).write.mode("overwrite").partitionBy("date").parquet(str(table.absolute()))
    if output_topic is not None:
        ensure_table(bootstrap, output_topic)
        sink = as_records(revenue).write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        sink.option("topic", output_topic).save()
    minutes, cents = revenue.count(), revenue.agg({"revenue_cents": "sum"}).first()[0]
    print(f"{topic}: {minutes:,} rows of minute and region, revenue {cents / 100:,.2f}")
    spark.stop()


if __name__ == "__main__":
    typer.run(main)
