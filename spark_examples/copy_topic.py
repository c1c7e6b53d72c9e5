"""Copies topics with Spark: keys, values and headers, each record to the partition that it came from.

    python spark_examples/copy_topic.py --subscribe order-events --available-now
    python spark_examples/copy_topic.py --subscribe-pattern 'order-.*' --prefix backup.
    python spark_examples/copy_topic.py --assign '{"order-events":[0,2]}' --from-time 2025-03-03T08:00Z --available-now

A topic goes to `<prefix><topic>`, created with as many partitions. A pattern includes topics that appear while it runs, from
their first record. A copy does not keep offsets and timestamps: Spark's sink has no columns for them.

At-least-once: after a crash the records of the last batch are written again. A reader that needs each record once drops
duplicates by an id in the records, as revenue_stream.py does.

--min-partitions reads a partition in several pieces at once: faster with more cores than partitions, but only the order
within each piece is kept. --no-fail-on-data-loss continues where records were deleted before they were copied (retention,
DeleteRecords); without it the program ends there, and prints what is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit
from pyspark.sql.streaming import DataStreamWriter
from session import spark_session
from streams import claim, run, trigger_of
from topics import ensure_topic, from_time, parse_time, partition_counts

#: Options of Spark's source that select the records: exactly one is given.
CHOICES = ("subscribe", "subscribePattern", "assign")


def chosen(choice: dict[str, str], names: Iterable[str]) -> set[str]:
    """Returns the topics to be copied."""
    match choice:
        case {"subscribe": listed}:
            return set(listed.split(",")) & set(names)
        case {"subscribePattern": pattern}:
            return {name for name in names if re.fullmatch(pattern, name)}
        case {"assign": partitions}:
            return set(json.loads(partitions)) & set(names)
    raise ValueError(f"not one of {CHOICES}: {choice}")


def make_copies(bootstrap: str, choice: dict[str, str], prefix: str) -> None:
    """Makes the topics that are not there yet, with as many partitions as their originals."""
    counts = partition_counts(bootstrap)
    originals = chosen(choice, counts)
    if echoes := chosen(choice, [prefix + name for name in originals]):
        raise ValueError(f"copies would be copied again: {sorted(echoes)}")
    for name in originals:
        if prefix + name not in counts:
            ensure_topic(bootstrap, prefix + name, counts[name])


def copier(
    spark: SparkSession, bootstrap: str, choice: dict[str, str], options: dict[str, str], prefix: str
) -> DataStreamWriter:
    """Returns the query without its trigger and checkpoint. `options` are further options of the source."""
    if pattern := choice.get("subscribePattern"):
        choice = {"subscribePattern": f"^(?:{pattern})$"}  # Spark also accepts a match of a part of a name
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**choice)
    records = source.option("includeHeaders", True).options(**options).load()
    topic = concat(lit(prefix), col("topic")).alias("topic")
    outgoing = records.select(topic, "partition", "key", "value", "headers")

    def write(batch: DataFrame, _: int) -> None:
        # In each batch, because a topic that matches the pattern may have appeared since the start.
        make_copies(bootstrap, choice, prefix)
        batch.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).save()

    return outgoing.writeStream.queryName("copy").foreachBatch(write)


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    subscribe: Annotated[str | None, typer.Option(help="Topics, with commas between them.")] = None,
    subscribe_pattern: Annotated[str | None, typer.Option(help="A regular expression that names match whole.")] = None,
    assign: Annotated[str | None, typer.Option(help='Partitions, as {"topic":[0,1]}.')] = None,
    prefix: Annotated[str, typer.Option(help="What the names of the copies begin with.")] = "copy-of-",
    checkpoint: Annotated[Path, typer.Option(help="Where the query keeps how far it is.")] = Path("copy-checkpoint"),
    available_now: Annotated[bool, typer.Option("--available-now", help="Copy what is there, and end.")] = False,
    every: Annotated[str, typer.Option(help="How often to look for new records.")] = "1 second",
    from_time_: Annotated[str | None, typer.Option("--from-time", help="Begin with records of this time.")] = None,
    min_partitions: Annotated[int | None, typer.Option(help="In about how many pieces to read.")] = None,
    fail_on_data_loss: Annotated[bool, typer.Option(help="End when records are gone before they were copied.")] = True,
) -> None:
    """Copy topics, with keys, values and headers."""
    given = dict(zip(CHOICES, (subscribe, subscribe_pattern, assign), strict=True))
    choice = {name: value for name, value in given.items() if value}
    if len(choice) != 1:
        raise typer.BadParameter("give one of --subscribe, --subscribe-pattern and --assign")
    options = from_time(parse_time(from_time_)) if from_time_ else {"startingOffsets": "earliest"}
    options["failOnDataLoss"] = str(fail_on_data_loss).lower()
    if min_partitions:
        options["minPartitions"] = str(min_partitions)
    claim(checkpoint, bootstrap)
    spark = spark_session("copy-topic")
    query = copier(spark, bootstrap, choice, options, prefix)
    run([query.option("checkpointLocation", str(checkpoint.absolute())).trigger(**trigger_of(available_now, every))])


if __name__ == "__main__":
    typer.run(main)
