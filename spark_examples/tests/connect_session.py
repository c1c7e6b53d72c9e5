"""Rows of format("odradek") and pyspark_odradek.read for a client of Spark Connect, as JSON:

    python connect_session.py BOOTSTRAP TOPIC FOLDER

A process of its own: PySpark has either classic sessions or those of Spark Connect.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from odradek.spark.offset_listener import OffsetCommitListener
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from session import spark_session
from streams import rows_of

from pyspark_odradek import read

DEADLINE_S = 240


class Counted(StreamingQueryListener):
    """Counts rows on the client."""

    def __init__(self) -> None:
        self.rows = 0
        self.ended = 0

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        self.rows += rows_of(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None:
        self.ended += 1


def batch(spark: SparkSession, form: str, given: dict[str, str]) -> list[Any]:
    options = given | {"includeHeaders": "true"}
    frame = read(spark, **options) if form == "read" else spark.read.format(form).options(**options).load()
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    return [repr(row) for row in rows]


def stream(spark: SparkSession, given: dict[str, str], folder: str) -> list[int]:
    """Amounts by the sink of Parquet, and by foreachBatch, of two queries."""

    def amounts(name: str) -> DataFrame:
        source = spark.readStream.format("odradek").options(**given, valueFormat="json", startingOffsets="earliest")
        source = source.option("commitGroup", group_of(folder, name))
        return source.schema("value struct<amount_cents: bigint>, offset bigint").load().select("value.*", "offset")

    def append(frame: DataFrame, number: int) -> None:
        frame.write.mode("append").parquet(f"{folder}/by-function")

    writers = {
        "by-sink": amounts("by-sink").writeStream.format("parquet").option("path", f"{folder}/by-sink"),
        "by-function": amounts("by-function").writeStream.foreachBatch(append),
    }
    for name, writer in writers.items():
        query = writer.option("checkpointLocation", f"{folder}/{name}-checkpoint").trigger(availableNow=True).start()
        assert query.awaitTermination(DEADLINE_S)
        if (failure := query.exception()) is not None:
            raise failure
    return [spark.read.parquet(f"{folder}/{name}").agg({"amount_cents": "sum"}).first()[0] for name in writers]


def group_of(folder: str, query: str) -> str:
    """The group to which a query commits."""
    return f"{Path(folder).name}.{query}"


def main(bootstrap: str, topic: str, folder: str) -> None:
    spark = spark_session("connect-session")
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    listener = Counted()
    commits = OffsetCommitListener(given)
    for one in (listener, commits):
        spark.streams.addListener(one)
    try:
        found = {form: batch(spark, form, given) for form in ("kafka", "odradek", "read")}
        found["amounts"] = stream(spark, given, folder)
        deadline = time.monotonic() + DEADLINE_S
        while listener.ended < len(found["amounts"]) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        for one in (commits, listener):
            spark.streams.removeListener(one)  # the thread of listeners would keep the process
        commits.close()
    print(json.dumps({**found, "listened": listener.rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
