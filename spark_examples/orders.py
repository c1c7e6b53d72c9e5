"""The orders of the pipeline's input, made from a seed: they can be counted again without Kafka or Spark.

A shop in five regions takes about 700 orders a minute, more in a region's evening than in its night. One event announces
each order, and arrives a little after the placement. Some events arrive minutes late. A gateway that missed the first
response sends some twice. `order_events` yields them in the order of arrival, without end: the first N of a seed are always
the same.

An event is never later than MAX_DELAY_MS, its repetition included. A consumer with a longer watermark drops none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

#: Start of the stream. A fixed day, so that the seed alone determines the topic.
START = datetime(2025, 3, 3, tzinfo=UTC)
ORDERS_PER_MINUTE = 700
CUSTOMERS_PER_REGION = 4_000

#: Region to its share of the customers, and its offset from UTC in hours.
REGIONS = {"africa": (1, 1), "americas": (5, -5), "asia": (6, 8), "europe": (4, 1), "oceania": (1, 11)}
#: Product to its price in cents. Money is whole cents from the shop to the report, so that sums are exact.
CATALOGUE = {
    "beans": 1_249,
    "brush": 399,
    "carafe": 3_495,
    "dripper": 1_990,
    "espresso-machine": 64_900,
    "filters": 575,
    "grinder": 12_950,
    "kettle": 4_999,
    "mug": 1_100,
    "scale": 5_450,
}

#: One event in 20 is up to five minutes late, and one in 50 is sent again within the five minutes after its arrival.
LATE_SHARE, DUPLICATE_SHARE = 0.05, 0.02
USUAL_DELAY_MS, LATE_DELAY_MS, RESEND_DELAY_MS = 2_000, 300_000, 300_000
MAX_DELAY_MS = LATE_DELAY_MS + RESEND_DELAY_MS

_MINUTES_A_DAY = 1_440
_MINUTE_MS = 60_000


class Order(NamedTuple):
    """An order of a customer. `placed_ms` is the event time: milliseconds since 1970, UTC."""

    order_id: str
    customer_id: str
    region: str
    product: str
    quantity: int
    amount_cents: int
    placed_ms: int

    def to_json(self) -> str:
        """Returns the value of its record in Kafka."""
        return (
            f'{{"order_id":"{self.order_id}","customer_id":"{self.customer_id}","region":"{self.region}",'
            f'"product":"{self.product}","quantity":{self.quantity},"amount_cents":{self.amount_cents},'
            f'"event_time":"{iso(self.placed_ms)}"}}'
        )


class OrderEvent(NamedTuple):
    """An order at its arrival: `arrived_ms` is the timestamp of its record, `attempt` is 2 when it was sent again."""

    arrived_ms: int
    attempt: int
    order: Order


def order_events(seed: int, start: datetime = START) -> Iterator[OrderEvent]:
    """Yields every event of a seed in the order of arrival, without end."""
    rng = random.Random(seed)
    on_the_way: list[tuple[int, int, OrderEvent]] = []
    for number, order in enumerate(_orders(rng, seed, start)):
        while on_the_way and on_the_way[0][0] <= order.placed_ms:
            yield heappop(on_the_way)[2]
        arrival = order.placed_ms + _delay_ms(rng)
        heappush(on_the_way, (arrival, 2 * number, OrderEvent(arrival, 1, order)))
        if rng.random() < DUPLICATE_SHARE:
            again = arrival + int(rng.random() * RESEND_DELAY_MS)
            heappush(on_the_way, (again, 2 * number + 1, OrderEvent(again, 2, order)))


def _orders(rng: random.Random, seed: int, start: datetime) -> Iterator[Order]:
    """Yields the orders in the order of their placement."""
    regions, products = list(REGIONS), list(CATALOGUE)
    weights = [_weights_at(minute) for minute in range(_MINUTES_A_DAY)]
    placed = start.timestamp() * 1000
    number = 0
    while True:
        cumulative = weights[int(placed // _MINUTE_MS) % _MINUTES_A_DAY]
        placed += rng.expovariate(cumulative[-1] * ORDERS_PER_MINUTE / _MINUTE_MS)
        region = rng.choices(regions, cum_weights=cumulative)[0]
        product = products[int(rng.random() * len(products))]
        quantity = 1 + int(3 * rng.random() ** 3)
        # Some customers order far more often than others, as with the keys of real topics.
        customer = int(CUSTOMERS_PER_REGION * rng.random() ** 2)
        yield Order(
            f"{seed}-{number:09d}",
            f"{region}-{customer:04d}",
            region,
            product,
            quantity,
            quantity * CATALOGUE[product],
            int(placed),
        )
        number += 1


def _weights_at(minute: int) -> list[float]:
    """Returns the weight of each region at a minute of the day, as running sums; over a day, the last is 1 on average."""
    customers = sum(share for share, _ in REGIONS.values())
    return list(
        accumulate(
            share / customers * (1 + 0.75 * math.cos(2 * math.pi * (minute / 60 + zone - 19) / 24))
            for share, zone in REGIONS.values()
        )
    )


def _delay_ms(rng: random.Random) -> int:
    longest = LATE_DELAY_MS if rng.random() < LATE_SHARE else USUAL_DELAY_MS
    return int(rng.random() * longest)


def iso(ms: int) -> str:
    """Returns milliseconds since 1970 in the form `2025-03-03T00:00:01.234Z`."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
