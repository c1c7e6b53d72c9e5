"""Copies a topic with Spark's real-time mode: each record is in the target some milliseconds later, not a micro-batch later.

    python spark_examples/real_time.py --source order-events --target orders-upper --checkpoint /tmp/real-time

Spark 4.1 and later, for queries without state, with Spark's Kafka connector on both sides: `format("odradek")` is a data
source in Python, which real-time mode does not take. PySpark 4.2 has `trigger(realTime=...)`; in 4.1 only the JVM has the
trigger, so the program takes it from there, which needs a session that is not one of Spark Connect.

Records are written at least once, as by Spark's Kafka sink in other modes.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter
from session import spark_session
from streams import run
from topics import ensure_topic, partition_counts


def in_real_time(spark: SparkSession, sink: DataStreamWriter, checkpoint_every: str) -> DataStreamWriter:
    """Returns the writer with the trigger of real-time mode.

    `checkpoint_every`: how long one batch runs. Its records are written meanwhile, its offsets at its end. Spark takes 5
    seconds and more (`spark.sql.streaming.realTimeMode.minBatchDuration`).
    """
    if "realTime" in inspect.signature(DataStreamWriter.trigger).parameters:
        return sink.trigger(realTime=checkpoint_every)
    assert spark._jvm is not None
    trigger = spark._jvm.org.apache.spark.sql.streaming.Trigger.RealTime(checkpoint_every)
    sink._jwrite = sink._jwrite.trigger(trigger)
    return sink


def main(
    source: Annotated[str, typer.Option(help="the topic to read")],
    target: Annotated[str, typer.Option(help="the topic to write; it is made where it does not exist")],
    checkpoint: Annotated[Path, typer.Option(help="where Spark keeps the progress")],
    bootstrap: Annotated[str, typer.Option()] = "127.0.0.1:9092",
    every: Annotated[str, typer.Option(help="time between two entries of the checkpoint")] = "30 seconds",
) -> None:
    partitions = partition_counts(bootstrap)[source]
    ensure_topic(bootstrap, target, partitions)
    spark = spark_session("real-time")
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    records = records.option("subscribe", source).option("startingOffsets", "earliest").load()
    copies = records.selectExpr("key", "upper(cast(value as string)) as value")
    sink = copies.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    sink = sink.option("checkpointLocation", str(checkpoint)).outputMode("update").queryName("real-time")
    run([in_real_time(spark, sink, every)])


if __name__ == "__main__":
    typer.run(main)
