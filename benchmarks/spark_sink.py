"""CPU that Spark takes to write a DataFrame to a topic: `format("odradek")` beside the connector's sink, in turn.

    python -m benchmarks.spark_sink [--records 1000000] [--rounds 3] [--sizes 100 1024]

Seconds of CPU for a million records, of all processes: the JVM, the workers of Python, the broker. The DataFrame is in
memory before the turns. Keys are texts of a million numbers; both partition by them. The control writes to Spark's `noop`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import Any

import odradek
import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.columns import TreeCpu
from compat_tests.recipes import make_topic

PARTITIONS, CORES = 6, 2
KINDS = ("odradek", "kafka", "noop")


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.path.append("spark_examples")
    from jars import connector_jars  # type: ignore[import-not-found]

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(map(str, connector_jars())))
    found = builder.config("spark.driver.memory", "2g").getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def write(frame: DataFrame, kind: str, bootstrap: str, topic: str) -> None:
    writer = frame.write.format(kind)
    if kind == "noop":
        writer.mode("overwrite").save()
        return
    writer.mode("append").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()


def row(spark: SparkSession, broker: odradek.Broker, size: int, records: int, rounds: int) -> dict[str, Any]:
    text = "x" * (size - 8)
    frame = spark.range(0, records, 1, CORES).selectExpr(
        "cast(id AS string) AS key", f"concat(lpad(cast(id AS string), 8, '0'), '{text}') AS value"
    )
    frame = frame.cache()
    assert frame.count() == records
    cpu = TreeCpu(psutil.Process())  # the broker is in this process, the JVM is its child
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(rounds + 1):
        for kind in KINDS:
            topic = f"{kind}-{size}-{turn}"
            make_topic(broker.bootstrap_servers, topic, PARTITIONS)
            before = cpu()
            write(frame, kind, broker.bootstrap_servers, topic)
            if turn:  # the first one compiles
                spent[kind].append((cpu() - before) / records * 1e6)
    cpu.close()
    frame.unpersist()
    medians = {kind: statistics.median(values) for kind, values in spent.items()}
    return {"size": size, **medians, "times": medians["kafka"] / medians["odradek"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1024])
    options = parser.parse_args()
    spark = session()
    with odradek.Broker() as broker:
        for size in options.sizes:
            found = row(spark, broker, size, options.records if size < 500 else options.records // 4, options.rounds)
            print(", ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
