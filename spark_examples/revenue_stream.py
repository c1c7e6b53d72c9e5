"""Revenue per minute and region, from `order-events`, to a Kafka topic and to Parquet, exactly.

    python spark_examples/revenue_stream.py                         # follows the topic until it is stopped
    python spark_examples/revenue_stream.py --available-now         # takes what is there, and ends

Each order counts once. `dropDuplicates` on the order's id *and* its event time keeps an order only until the watermark has
passed it. A repetition after that is older than the watermark, and is dropped as late. The watermark waits long enough for
every order (see WATERMARK_MINUTES): the printed lines confirm it with `too late: 0`.

Two queries read the topic, each with a checkpoint of its own:

- kafka: update mode. A minute's revenue is written again each time it grows, under the same key. A reader keeps the last
  value per key, and so has every order at once. Spark's Kafka sink is at-least-once: after a crash some values come
  twice, which changes no last value. The topic is compacted, so its size is that of its keys.
- parquet: append mode. A minute is written once, when the watermark has passed its end: the last half hour of orders is
  missing until later orders come. Through the checkpoint each row is in the table exactly once. Read the table with
  Spark, which uses its `_spark_metadata` and so leaves out files of a batch that never ended.

Kill it at any time, also with -9, or the broker: started again with the same directories, it continues.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from schema import as_records, parse_orders, revenue_per_minute, with_date
from session import spark_session
from streams import claim, run, trigger_of
from topics import ensure_table

#: Time that a minute waits for its last order. An order arrives up to 10 minutes late (orders.MAX_DELAY_MS). A partition
#: may be 5 minutes ahead of the others when Spark reads their ends (generate_orders.FLUSH_EVERY_MS). A batch takes the same
#: share of each partition's backlog, which is not quite the same span of time in each.
WATERMARK_MINUTES = 30


def unique_orders(records: DataFrame) -> DataFrame:
    """Returns each order once, even if it was sent twice."""
    orders = parse_orders(records).withWatermark("event_time", f"{WATERMARK_MINUTES} minutes")
    return orders.dropDuplicates(["order_id", "event_time"])


def to_kafka(revenue: DataFrame, bootstrap: str, topic: str) -> DataStreamWriter:
    sink = as_records(revenue).writeStream.queryName("kafka").outputMode("update").format("kafka")
    return sink.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)


def to_parquet(revenue: DataFrame, table: Path) -> DataStreamWriter:
    sink = with_date(revenue).writeStream.queryName("parquet").outputMode("append").format("parquet")
    return sink.option("path", str(table.absolute())).partitionBy("date")


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The orders.")] = "order-events",
    output_topic: Annotated[str, typer.Option(help="Made, compacted, if it is not there.")] = "revenue",
    table: Annotated[Path, typer.Option(help="The directory of Parquet files.")] = Path("revenue.parquet"),
    checkpoint: Annotated[Path, typer.Option(help="Where the queries keep how far they are.")] = Path("checkpoint"),
    available_now: Annotated[bool, typer.Option("--available-now", help="Take what is there, and end.")] = False,
    every: Annotated[str, typer.Option(help="How often to look for new orders.")] = "1 second",
    batch: Annotated[int, typer.Option(help="The most orders that one batch takes.", min=1)] = 100_000,
) -> None:
    """Count revenue per minute and region, as a stream."""
    claim(checkpoint, bootstrap)
    ensure_table(bootstrap, output_topic)
    spark = spark_session("revenue-stream")
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    records = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", batch).load()
    revenue = revenue_per_minute(unique_orders(records))
    sinks = {"kafka": to_kafka(revenue, bootstrap, output_topic), "parquet": to_parquet(revenue, table)}
    when = trigger_of(available_now, every)
    run(
        sink.option("checkpointLocation", str(checkpoint.absolute() / name)).trigger(**when)
        for name, sink in sinks.items()
    )


if __name__ == "__main__":
    typer.run(main)
