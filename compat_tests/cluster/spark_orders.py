"""A streaming query that keeps every order as a row: `spark_orders.py BOOTSTRAP TOPIC DIRECTORY`, a program of its own.

After a line on its standard input it reads the available records, ends the query, and writes the rows of the sink, as Spark
reads them, to DIRECTORY/rows.jsonl. It fails when the query fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "spark_examples"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

from session import spark_session

from compat_tests import access

_COLUMNS = ("partition", "offset", "cast(key as string) as customer", "cast(value as string) as order_id")
_SCHEMA = "partition int, offset long, customer string, order_id string"


def main(bootstrap: str, topic: str, directory: Path) -> None:
    spark = spark_session("order-events")
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    for key, value in access.java().items():
        source = source.option(f"kafka.{key}", value)
    records = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    rows, checkpoint = str(directory / "rows"), str(directory / "checkpoint")
    sink = records.selectExpr(*_COLUMNS).writeStream.format("json").option("checkpointLocation", checkpoint)
    query = sink.trigger(processingTime="1 second").start(rows)
    sys.stdin.readline()
    query.processAllAvailable()
    query.stop()
    with (directory / "rows.jsonl").open("w") as file:
        for row in spark.read.schema(_SCHEMA).json(rows).toLocalIterator():
            file.write(json.dumps([row.partition, row.offset, row.customer, row.order_id]) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
