"""The schema of an order for Spark, and its aggregation. The stream, the report and the backfill share it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

#: Money is whole cents: sums of whole numbers do not depend on the order of tasks.
ORDER = (
    StructType()
    .add("order_id", StringType())
    .add("customer_id", StringType())
    .add("region", StringType())
    .add("product", StringType())
    .add("quantity", IntegerType())
    .add("amount_cents", LongType())
    .add("event_time", TimestampType())
)


def parse_orders(records: DataFrame) -> DataFrame:
    """Parses the values of Kafka's records as orders; leaves out invalid values."""
    parsed = records.select(f.from_json(f.col("value").cast("string"), ORDER).alias("order"))
    return parsed.select("order.*").where("order_id is not null and event_time is not null")


def revenue_by(orders: DataFrame, *groups: Column) -> DataFrame:
    """Returns the number of orders and their revenue per group."""
    return orders.groupBy(*groups).agg(f.count("*").alias("orders"), f.sum("amount_cents").alias("revenue_cents"))


def revenue_per_minute(orders: DataFrame) -> DataFrame:
    """Columns: window_start, region, orders, revenue_cents. Rows: one per minute and region that had an order."""
    revenue = revenue_by(orders, f.window("event_time", "1 minute"), f.col("region"))
    return revenue.select(f.col("window.start").alias("window_start"), "region", "orders", "revenue_cents")


def as_records(revenue: DataFrame) -> DataFrame:
    """Returns revenue as Kafka's records. The key is minute and region; the last record of a key is valid."""
    minute = f.col("window_start").cast("string")
    key = f.concat_ws("|", minute, "region")
    value = f.to_json(f.struct(minute.alias("window_start"), "region", "orders", "revenue_cents"))
    return revenue.select(key.alias("key"), value.alias("value"))


def with_date(revenue: DataFrame) -> DataFrame:
    """Adds the column that partitions the Parquet files."""
    return revenue.withColumn("date", f.to_date("window_start"))
