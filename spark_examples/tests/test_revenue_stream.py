"""revenue_stream.py, and the plot of its output: the same sums as counted without Kafka and Spark."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from revenue_stream import WATERMARK_MINUTES
from topics import read_topic

from spark_examples.tests.counting import (
    closed,
    events,
    revenue_in_table,
    revenue_in_topic,
    revenue_of,
    watermark_ms,
)
from spark_examples.tests.programs import run_program

#: Three quarters of an hour of orders, so that the watermark closes minutes in each run.
FIRST_RUN, SECOND_RUN = 30_000, 50_000
#: Less than a run's events, so that a run takes several batches.
BATCH = 12_000


def test_two_runs_of_what_is_available_count_each_order_once(
    spark: SparkSession, run_in_session: Callable[..., str], bootstrap: str, tmp_path: Path,
    unique: Callable[[str], str],
) -> None:  # fmt: skip
    orders, revenue = unique("orders"), unique("revenue")
    table = tmp_path / "table"
    where = ["--bootstrap", bootstrap, "--topic", orders, "--output-topic", revenue]
    disk = ["--table", str(table), "--checkpoint", str(tmp_path / "checkpoint")]

    for skip, count in ((0, FIRST_RUN), (FIRST_RUN, SECOND_RUN)):
        fill = ["--topic", orders, "--skip", str(skip), "--events", str(count)]
        run_program("generate_orders.py", "--bootstrap", bootstrap, *fill)
        printed = run_in_session("revenue_stream.py", *where, *disk, "--available-now", "--batch", str(BATCH))
        assert set(re.findall(r"too late: (\d+)", printed)) == {"0"}

        arrived = events(count)
        expected = revenue_of(arrived)
        assert revenue_in_topic(bootstrap, revenue) == expected
        assert revenue_in_table(spark, table) == closed(expected, watermark_ms(arrived, WATERMARK_MINUTES))

    assert sum(1 for _ in read_topic(bootstrap, revenue)) > len(expected), "no minute was updated: one batch took all"
    _holds_a_picture(bootstrap, revenue, tmp_path / "revenue.png")


def _holds_a_picture(bootstrap: str, revenue: str, picture: Path) -> None:
    run_program("plot_revenue.py", "--bootstrap", bootstrap, "--topic", revenue, "--output", str(picture))
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    assert width >= 1_000 and height >= 500
