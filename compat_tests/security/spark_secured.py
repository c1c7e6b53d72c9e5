"""Spark's sink and source, in batches and in a stream: `spark_secured.py BOOTSTRAP TOPIC COPY COUNT DIRECTORY`.

Writes COUNT records to TOPIC, copies them to COPY with a stream, and prints the number of distinct values in COPY. Connects
with the properties of compat_tests/access.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "spark_examples"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

from session import spark_session

from compat_tests import access


def main(bootstrap: str, topic: str, copy: str, count: int, directory: Path) -> None:
    spark = spark_session("secured")
    options = {f"kafka.{key}": value for key, value in access.java().items()}
    options["kafka.bootstrap.servers"] = bootstrap
    rows = spark.range(count).selectExpr("cast(id % 7 as string) as key", "cast(id as string) as value")
    rows.write.format("kafka").options(**options).option("topic", topic).save()
    source = spark.readStream.format("kafka").options(**options).option("subscribe", topic)
    records = source.option("startingOffsets", "earliest").load().select("key", "value")
    sink = records.writeStream.format("kafka").options(**options).option("topic", copy)
    sink.option("checkpointLocation", str(directory / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    found = spark.read.format("kafka").options(**options).option("subscribe", copy).load()
    print("records", found.count(), "values", found.select("value").distinct().count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
