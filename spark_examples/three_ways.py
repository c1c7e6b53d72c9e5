"""The orders by each of the three ways, with equal totals: the connector, format("odradek"), and a table.

    python spark_examples/three_ways.py --warehouse tables

Archives the topic into an Iceberg table first, as `odradek archive order-events --value-format json` does, and reads the
table with Spark SQL, DuckDB, Polars and PyIceberg. Ends with an error where a way has other totals.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import duckdb
import polars as pl
import pyarrow.compute as pc
import typer
from odradek.archive import ArchiveOptions, Archiver, IcebergTable, open_catalog
from odradek.columns import INFER, ValueSchema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from schema import parse_orders
from session import CATALOG, spark_session


class Totals(NamedTuple):
    events: int
    orders: int
    cents: int


def archived(bootstrap: str, topic: str, warehouse: Path) -> Any:
    """Returns PyIceberg's table of the topic, with all records that are in the topic now."""
    client = {"bootstrap.servers": bootstrap}
    options = ArchiveOptions(values=ValueSchema("json", INFER))
    catalog = open_catalog(warehouse, {})
    Archiver(client, [topic], lambda name: IcebergTable(catalog, name), options).run(once=True)
    return catalog.load_table(f"kafka.{topic.replace('-', '_')}")


def by_spark(orders: DataFrame) -> Totals:
    totals = (f.count("*"), f.countDistinct("order_id"), f.sum("amount_cents"))
    return Totals(*orders.agg(*totals).first())


def by_connector(spark: SparkSession, bootstrap: str, topic: str) -> Totals:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return by_spark(parse_orders(source.load()))


def by_odradek(spark: SparkSession, bootstrap: str, topic: str) -> Totals:
    source = spark.read.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    columns = "value struct<order_id: string, amount_cents: bigint>"
    return by_spark(source.option("valueFormat", "json").schema(columns).load().select("value.*"))


def by_spark_sql(spark: SparkSession, table: Any) -> Totals:
    name = ".".join([CATALOG, *table.name()])
    query = "select count(*), count(distinct value.order_id), sum(value.amount_cents) from"
    return Totals(*spark.sql(f"{query} {name}").first())


def by_duckdb(table: Any) -> Totals:
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    query = "select count(*), count(distinct value.order_id), sum(value.amount_cents) from read_parquet($files)"
    with duckdb.connect() as connection:
        return Totals(*map(int, connection.execute(query, {"files": files}).fetchone()))


def by_polars(table: Any) -> Totals:
    value = pl.col("value").struct
    totals = (pl.len(), value.field("order_id").n_unique(), value.field("amount_cents").sum())
    frame = pl.scan_iceberg(table).select(*(one.alias(str(number)) for number, one in enumerate(totals)))
    return Totals(*frame.collect().row(0))


def by_pyiceberg(table: Any) -> Totals:
    values = table.scan(selected_fields=("value",)).to_arrow().column("value")
    orders, cents = (pc.struct_field(values, name) for name in ("order_id", "amount_cents"))
    return Totals(len(values), pc.count_distinct(orders).as_py(), pc.sum(cents).as_py())


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The orders.")] = "order-events",
    warehouse: Annotated[Path, typer.Option(help="The folder of the tables.")] = Path("tables"),
) -> None:
    """Read the orders by the connector, by format("odradek"), and from a table with four engines."""
    table = archived(bootstrap, topic, warehouse)
    spark = spark_session("three-ways", warehouse)
    found = {
        "connector": by_connector(spark, bootstrap, topic),
        'format("odradek")': by_odradek(spark, bootstrap, topic),
        "table, Spark SQL": by_spark_sql(spark, table),
        "table, DuckDB": by_duckdb(table),
        "table, Polars": by_polars(table),
        "table, PyIceberg": by_pyiceberg(table),
    }
    for way, totals in found.items():
        print(f"{way:18} {totals.events:>10,} events, {totals.orders:,} orders, {totals.cents / 100:,.2f}")
    spark.stop()
    if len(set(found.values())) != 1:
        sys.exit("the totals differ")


if __name__ == "__main__":
    typer.run(main)
