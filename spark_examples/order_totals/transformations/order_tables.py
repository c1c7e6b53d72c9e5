"""The topic order-events as a table of orders, and the orders of 500.00 or more as a topic.

`format("odradek")` reads and writes without a jar. Each run takes what came since the one before.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

spark = SparkSession.active()
BOOTSTRAP = spark.conf.get("spark.orders.bootstrap")
ORDER = "order_id string, customer_id string, region string, amount_cents long, event_time timestamp"


@dp.table
def orders() -> DataFrame:
    records = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "order-events")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select("offset", from_json(col("value").cast("string"), ORDER).alias("order")).select(
        "offset", "order.*"
    )


dp.create_sink("large_orders", "odradek", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def to_large_orders() -> DataFrame:
    large = spark.readStream.table("orders").where("amount_cents >= 50000")
    return large.selectExpr("order_id as key", "to_json(struct(order_id, customer_id, amount_cents)) as value")
