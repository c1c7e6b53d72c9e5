"""Revenue by region of a part of the topic: between two times, or between two offsets of each partition.

    python spark_examples/batch_report.py                           # all of it
    python spark_examples/batch_report.py --from-time 2025-03-03T08:00Z --to-time 2025-03-03T09:00Z
    python spark_examples/batch_report.py --from-offsets '{"0":0,"1":0,"2":0}' --to-offsets '{"0":100,"1":90,"2":95}'

Times are those of the records: the arrival of an order, not its placement.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col
from rich.console import Console
from rich.table import Table
from schema import parse_orders, revenue_by
from session import spark_session
from topics import between_offsets, between_times, parse_offsets, parse_time


def revenue_by_region(spark: SparkSession, bootstrap: str, topic: str, piece: dict[str, str]) -> list[Row]:
    """Returns rows of region, orders, revenue_cents. An order that was sent twice counts once."""
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    orders = parse_orders(source.options(**piece).load()).dropDuplicates(["order_id"])
    return revenue_by(orders, col("region")).orderBy("region").collect()


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The orders.")] = "order-events",
    from_time: Annotated[str | None, typer.Option(help="What arrived at this time or later.")] = None,
    to_time: Annotated[str | None, typer.Option(help="What arrived before this time.")] = None,
    from_offsets: Annotated[str | None, typer.Option(help="JSON: the first offset of each partition.")] = None,
    to_offsets: Annotated[
        str | None, typer.Option(help="JSON: where each partition ends, that offset excluded.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Report revenue by region."""
    times = [text and parse_time(text) for text in (from_time, to_time)]
    offsets = [text and parse_offsets(text) for text in (from_offsets, to_offsets)]
    if any(times) and any(offsets):
        raise typer.BadParameter("give times or offsets, not both")
    piece = between_times(*times) if any(times) else between_offsets(topic, *offsets)
    spark = spark_session("batch-report")
    rows = [row.asDict() for row in revenue_by_region(spark, bootstrap, topic, piece)]
    spark.stop()
    if as_json:
        print(json.dumps(rows))
    else:
        Console().print(_table(rows))


def _table(rows: list[dict[str, int]]) -> Table:
    table = Table(show_footer=True)
    orders, cents = (sum(row[name] for row in rows) for name in ("orders", "revenue_cents"))
    table.add_column("region", "all")
    table.add_column("orders", f"{orders:,}", justify="right")
    table.add_column("revenue", f"{cents / 100:,.2f}", justify="right")
    for row in rows:
        table.add_row(str(row["region"]), f"{row['orders']:,}", f"{row['revenue_cents'] / 100:,.2f}")
    return table


if __name__ == "__main__":
    typer.run(main)
