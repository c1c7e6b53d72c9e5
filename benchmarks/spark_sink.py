"""CPU that Spark takes to write a DataFrame to a topic: `format("odradek")` beside the connector's sink, in turn.

    python -m benchmarks.spark_sink [--records 1000000] [--rounds 3] [--sizes 100 1024] [--target apache]

Seconds of CPU for a million records, of Spark's JVM with its workers of Python, and of the broker, which is Odradek or
Apache Kafka. The DataFrame is in memory before the turns. Keys are texts of a million numbers; both partition by them. The
controls write to Spark's `noop`: what it costs to read the DataFrame, and, as `arrow`, to give its rows to Python besides.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks import brokers
from benchmarks.brokers import Cost
from benchmarks.columns import TreeCpu
from compat_tests.broker_process import BrokerProcess
from compat_tests.recipes import make_topic

PARTITIONS, CORES = 6, 2
#: Turns in which the JVM compiles what runs often: that of the connector takes four.
WARM_UPS = 4
KINDS = ("odradek", "kafka", "noop", "arrow")


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.path.append("spark_examples")
    from jars import connector_jars  # type: ignore[import-not-found]

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(map(str, connector_jars())))
    found = builder.config("spark.driver.memory", "2g").getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def drained(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Takes all rows and gives none."""
    for _ in batches:
        yield from ()


def write(frame: DataFrame, kind: str, bootstrap: str, topic: str) -> None:
    if kind in ("noop", "arrow"):
        read = frame if kind == "noop" else frame.mapInArrow(drained, frame.schema)
        read.write.format("noop").mode("overwrite").save()
        return
    writer = frame.write.format(kind)
    writer.mode("append").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()


def row(spark: SparkSession, broker: BrokerProcess, size: int, records: int, rounds: int) -> None:
    text = "x" * (size - 8)
    frame = spark.range(0, records, 1, CORES).selectExpr(
        "cast(id AS string) AS key", f"concat(lpad(cast(id AS string), 8, '0'), '{text}') AS value"
    )
    frame = frame.cache()
    assert frame.count() == records
    of_spark = TreeCpu(*(one for one in psutil.Process().children() if one.pid != broker.pid))
    spent: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for turn in range(-WARM_UPS, rounds):
        for kind in KINDS:
            topic = f"{kind}-{size}-{turn + WARM_UPS}"
            make_topic(broker.bootstrap, topic, PARTITIONS)
            before = of_spark(), Cost.of(broker.pid).cpu_s
            write(frame, kind, broker.bootstrap, topic)
            if turn >= 0:
                spent[kind].append((of_spark() - before[0], Cost.of(broker.pid).cpu_s - before[1]))
    of_spark.close()
    frame.unpersist()
    sums = {}
    for kind, values in spent.items():
        parts = [statistics.median(each) / records * 1e6 for each in zip(*values, strict=True)]
        sums[kind] = sum(parts)
        print(f"{size} B, {kind}: Spark {parts[0]:.2f}, broker {parts[1]:.2f}, both {sums[kind]:.2f}", flush=True)
    print(f"{size} B: {sums['kafka'] / sums['odradek']:.2f} times the connector's rate per CPU", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1024])
    parser.add_argument("--target", choices=("odradek", "apache"), default="odradek")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = (brokers.apache if options.target == "apache" else brokers.odradek)(Path(folder, "broker"))
        spark = session()
        with broker:
            for size in options.sizes:
                row(spark, broker, size, options.records if size < 500 else options.records // 4, options.rounds)
        spark.stop()


if __name__ == "__main__":
    main()
