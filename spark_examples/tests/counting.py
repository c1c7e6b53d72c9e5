"""The same sums as the programs', counted from the seed in plain Python: no Kafka, no Spark, one loop."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from orders import Order, OrderEvent, order_events
from pyspark.sql import Row, SparkSession
from topics import last_per_key

SEED = 7
_MINUTE_MS = 60_000


class Sum(NamedTuple):
    orders: int
    cents: int


#: Keys are the start of the minute in milliseconds since 1970, and the region.
Revenue = dict[tuple[int, str], Sum]


def events(count: int, skip: int = 0) -> list[OrderEvent]:
    return list(islice(order_events(SEED), skip, count))


def unique_orders(arrived: Iterable[OrderEvent]) -> list[Order]:
    return list({event.order.order_id: event.order for event in arrived}.values())


def revenue_of(arrived: Iterable[OrderEvent]) -> Revenue:
    """Returns the revenue of each minute and region, with each order counted once."""
    orders: Counter[tuple[int, str]] = Counter()
    cents: Counter[tuple[int, str]] = Counter()
    for order in unique_orders(arrived):
        key = order.placed_ms // _MINUTE_MS * _MINUTE_MS, order.region
        orders[key] += 1
        cents[key] += order.amount_cents
    return {key: Sum(orders[key], cents[key]) for key in orders}


def by_region(orders: Iterable[Order]) -> dict[str, Sum]:
    sums: dict[str, Sum] = {}
    for order in orders:
        count, cents = sums.get(order.region, Sum(0, 0))
        sums[order.region] = Sum(count + 1, cents + order.amount_cents)
    return sums


def watermark_ms(arrived: Iterable[OrderEvent], minutes: int) -> int:
    """Returns Spark's watermark after these events."""
    return max(event.order.placed_ms for event in arrived) - minutes * _MINUTE_MS


def closed(revenue: Revenue, watermark: int) -> Revenue:
    """Returns the minutes that ended at or before the watermark."""
    return {key: total for key, total in revenue.items() if key[0] + _MINUTE_MS <= watermark}


def revenue_in_topic(bootstrap: str, topic: str) -> Revenue:
    """Reads the revenue topic as its readers do: the last value of each key."""
    rows = [json.loads(value) for value in last_per_key(bootstrap, topic).values()]
    return {(_ms(row["window_start"]), row["region"]): Sum(row["orders"], row["revenue_cents"]) for row in rows}


def revenue_in_table(spark: SparkSession, table: Path) -> Revenue:
    """Reads the Parquet table. Fails when it has a minute and region twice."""
    text = "cast(window_start as string) as window_start"
    rows: list[Row] = spark.read.parquet(str(table)).selectExpr(text, "region", "orders", "revenue_cents").collect()
    revenue = {(_ms(row.window_start), row.region): Sum(row.orders, row.revenue_cents) for row in rows}
    assert len(revenue) == len(rows), "a row is in the table twice"
    return revenue


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
