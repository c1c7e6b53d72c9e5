"""revenue_ledger.py: orders of aborted transactions among the others, and kill -9 of the driver and the broker.

    SPARK_ROUNDS=20 pytest spark_examples/tests/test_revenue_ledger.py

A round feeds orders in transactions until driver and broker have been killed at random times, and compares the ledger's sums
with a count of the seed in plain Python. The sums grow from round to round: an error of one round shows in all later ones.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from numbered_batches import Entry, NumberedBatches
from orders import OrderEvent, order_events
from topics import ensure_topic, read_topic

from compat_tests.broker_process import BrokerProcess
from spark_examples.tests.programs import Program

ROUNDS = int(os.environ.get("SPARK_ROUNDS", "1"))
CHUNK = 400
#: Orders that the ledger does not have yet: always some, so that a kill hits a batch.
BACKLOG = 6_000
TOPIC, LEDGER, SEED = "order-events", "revenue-ledger", 11
ABORTED_SHARE = 0.3
_DEADLINE_S = 240

Sums = Counter[tuple[int, str, str]]


class Feeder:
    """Chunks of events, each in a transaction. Some are first written with wrong amounts and aborted."""

    def __init__(self, broker: BrokerProcess) -> None:
        ensure_topic(broker.bootstrap, TOPIC, 3, {"retention.ms": "-1"})
        self._batches = NumberedBatches(broker.bootstrap, TOPIC, "shop")
        self._events = order_events(SEED)
        self._rng = random.Random(SEED)
        self._chunks = 0
        #: Expected sums of the ledger.
        self.sums: Sums = Counter()
        #: Number of orders in the ledger at its last reading.
        self.added = 0

    def feed(self, enough: threading.Event) -> None:
        while not enough.wait(0.05):  # the pace of the load
            if total(self.sums) - self.added > BACKLOG:
                continue
            chunk = list(islice(self._events, CHUNK))
            if self._rng.random() < ABORTED_SHARE:
                self._batches.write(_record(event, cents=99_999_999) for event in chunk)
                self._batches.abort()
            assert self._batches.add(self._chunks, [_record(event) for event in chunk])
            self._chunks += 1
            for event in chunk:
                minute = event.order.placed_ms // 60_000 * 60_000
                self.sums[minute, event.order.region, "orders"] += 1
                self.sums[minute, event.order.region, "cents"] += event.order.amount_cents


def _record(event: OrderEvent, cents: int | None = None) -> Entry:
    order = event.order if cents is None else event.order._replace(amount_cents=cents)
    return order.customer_id.encode(), order.to_json().encode()


def ledger_sums(broker: BrokerProcess) -> Sums:
    """Returns the sums of the ledger's committed entries, read with librdkafka."""
    sums: Sums = Counter()
    for message in read_topic(broker.bootstrap, LEDGER):
        row = json.loads(message.value())
        minute = int(datetime.fromisoformat(row["window_start"]).replace(tzinfo=UTC).timestamp() * 1000)
        sums[minute, row["region"], "orders"] += row["orders"]
        sums[minute, row["region"], "cents"] += row["revenue_cents"]
    return sums


class Stream:
    """The program, restarted whenever it has ended."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        self.starts = 0
        self._program: Program | None = None

    def look(self) -> None:
        if self._program is None or not self._program.is_running:
            if self._program is not None:
                self._program.kill()
            self.starts += 1
            options = ["--bootstrap", self._broker.bootstrap, "--checkpoint", str(self._folder / "checkpoint")]
            pace = ["--every", "100 milliseconds", "--batch", "3000"]
            self._program = Program(self._folder / "ledger.log", "revenue_ledger.py", *options, *pace)

    def kill(self) -> None:
        if self._program is not None:
            self._program.kill()

    def last_words(self) -> str:
        return (self._folder / "ledger.log").read_text()[-6000:]


@pytest.fixture
def stream(
    new_broker: Callable[[dict[str, str]], BrokerProcess], tmp_path: Path
) -> Iterator[tuple[Stream, BrokerProcess]]:
    broker = new_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"})
    ensure_topic(broker.bootstrap, LEDGER, 3)
    made = Stream(broker, tmp_path)
    yield made, broker
    made.kill()


@pytest.mark.timeout(1_200 + 240 * ROUNDS)
def test_the_ledger_adds_up_however_often_the_driver_and_the_broker_are_killed(
    stream: tuple[Stream, BrokerProcess],
) -> None:
    program, broker = stream
    feeder, rng = Feeder(broker), random.Random(SEED)
    for number in range(ROUNDS):
        execute(program, broker, feeder, rng)
        assert ledger_sums(broker) == feeder.sums, f"round {number}\n{program.last_words()}"
    assert program.starts > ROUNDS, "no driver died"


def execute(program: Stream, broker: BrokerProcess, feeder: Feeder, rng: random.Random) -> None:
    """Runs a round: events arrive, driver and broker are killed at random points, and every event is counted."""

    def added() -> int:
        feeder.added = total(ledger_sums(broker))
        return feeder.added

    program.look()
    before, enough = added(), threading.Event()
    feeding = threading.Thread(target=feeder.feed, args=(enough,))
    feeding.start()
    victims = [program, broker]
    rng.shuffle(victims)
    try:
        for victim in victims:
            # Between the next finished batch and several later.
            wait_for(lambda seen=before: added() > seen, program, "a batch has been added")
            time.sleep(rng.random() * 3)
            before = added()
            victim.kill()  # type: ignore[attr-defined]
            if victim is broker:
                broker.start()
    finally:
        enough.set()
    feeding.join(_DEADLINE_S)
    assert not feeding.is_alive(), "the feeder is stuck"
    wait_for(lambda: added() >= total(feeder.sums), program, "all orders are added")


def total(sums: Sums) -> int:
    return sum(count for (_, _, what), count in sums.items() if what == "orders")


def wait_for(holds: Callable[[], bool], program: Stream, what: str) -> None:
    give_up = time.monotonic() + _DEADLINE_S
    while not holds():
        program.look()
        assert time.monotonic() < give_up, f"not within {_DEADLINE_S} s: {what}\n{program.last_words()}"
        time.sleep(0.2)
