"""Copies a topic with Spark, each record exactly once: `writeStream.format("odradek")`, a sink that needs no jar.

    python spark_examples/copy_once.py --source order-events --target copies --checkpoint /tmp/copies --available-now

Keys, values, headers and timestamps are those of the source; a record goes to the partition of its key. Whatever dies,
driver, task or broker, a reader of committed records (`isolation.level=read_committed`) has each record once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from session import spark_session
from streams import run, trigger_of
from topics import ensure_topic, partition_counts


def main(
    source: Annotated[str, typer.Option(help="the topic to read")],
    target: Annotated[str, typer.Option(help="the topic to write; it is made where it does not exist")],
    checkpoint: Annotated[Path, typer.Option(help="where Spark keeps the progress")],
    bootstrap: Annotated[str, typer.Option()] = "127.0.0.1:9092",
    batch: Annotated[int, typer.Option(help="records of a micro-batch")] = 10_000,
    available_now: Annotated[bool, typer.Option(help="end when all records are copied")] = False,
    every: Annotated[str, typer.Option(help="time between micro-batches")] = "1 second",
) -> None:
    ensure_topic(bootstrap, target, partition_counts(bootstrap)[source])
    spark = spark_session("copy-once")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", batch)
        .load()
    )
    copies = (
        records.select("key", "value", "headers", "timestamp")
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.compression.type", "lz4")
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
    )
    run([copies.trigger(**trigger_of(available_now, every))])


if __name__ == "__main__":
    typer.run(main)
