"""generate_orders.py: the seed determines the topic."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, ConfigResource
from orders import DUPLICATE_SHARE, LATE_SHARE, MAX_DELAY_MS, USUAL_DELAY_MS
from topics import partition_counts, read_topic

from spark_examples.tests.counting import events
from spark_examples.tests.programs import ORDERS, run_program


@pytest.fixture(scope="module")
def messages(bootstrap: str, orders_topic: str) -> list[Message]:
    return list(read_topic(bootstrap, orders_topic))


def test_the_topic_holds_every_event_of_the_seed_in_the_order_of_arrival_per_customer(messages: list[Message]) -> None:
    found, planned = defaultdict(list), defaultdict(list)
    for message in messages:
        found[message.key().decode()].append((message.timestamp()[1], message.value().decode(), message.headers()))
    for arrived_ms, attempt, order in events(ORDERS):
        headers = [("schema", b"order/1"), ("attempt", str(attempt).encode())]
        planned[order.customer_id].append((arrived_ms, order.to_json(), headers))
    assert found == planned


def test_a_customer_is_in_one_of_three_partitions(bootstrap: str, orders_topic: str, messages: list[Message]) -> None:
    assert partition_counts(bootstrap)[orders_topic] == 3
    homes = defaultdict(set)
    for message in messages:
        homes[message.key()].add(message.partition())
    assert {len(home) for home in homes.values()} == {1}
    assert set().union(*homes.values()) == {0, 1, 2}


def test_some_orders_are_late_and_some_come_twice_as_often_as_it_says() -> None:
    arrived = events(ORDERS)
    delays = [event.arrived_ms - event.order.placed_ms for event in arrived if event.attempt == 1]
    assert min(delays) >= 0 and max(event.arrived_ms - event.order.placed_ms for event in arrived) <= MAX_DELAY_MS
    late = sum(delay > USUAL_DELAY_MS for delay in delays) / len(delays)
    twice = sum(event.attempt == 2 for event in arrived) / len(arrived)
    assert late == pytest.approx(LATE_SHARE, rel=0.1)
    assert twice == pytest.approx(DUPLICATE_SHARE, rel=0.1)


def test_events_arrive_in_the_order_of_their_timestamps_and_an_order_is_json() -> None:
    arrived = events(5_000)
    assert [event.arrived_ms for event in arrived] == sorted(event.arrived_ms for event in arrived)
    order = arrived[-1].order
    value = json.loads(order.to_json())
    assert (value["order_id"], value["amount_cents"]) == (order.order_id, order.amount_cents)


def test_skip_goes_on_where_an_earlier_run_ended(bootstrap: str, unique: Callable[[str], str]) -> None:
    topic = unique("orders")
    run_program("generate_orders.py", "--bootstrap", bootstrap, "--topic", topic, "--events", "300")
    run_program("generate_orders.py", "--bootstrap", bootstrap, "--topic", topic, "--events", "500", "--skip", "300")
    values = sorted(message.value().decode() for message in read_topic(bootstrap, topic))
    assert values == sorted(event.order.to_json() for event in events(500))


def test_the_topic_keeps_orders_of_a_day_that_is_long_past(bootstrap: str, orders_topic: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, orders_topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["retention.ms"].value == "-1"
