"""Producers and consumers of librdkafka, closed when the test ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

ConsumerOf = Callable[..., Consumer]
ProducerOf = Callable[..., Producer]


@pytest.fixture
def producer_of(bootstrap: str) -> Iterator[ProducerOf]:
    made: list[Producer] = []

    def start(**settings: Any) -> Producer:
        config = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, **settings}
        made.append(Producer(config))
        return made[-1]

    yield start
    for one in made:
        with contextlib.suppress(KafkaException):  # a fenced producer has nothing to flush
            one.flush(10)


@pytest.fixture
def consumer_of(bootstrap: str) -> Iterator[ConsumerOf]:
    made: list[Consumer] = []

    def start(group: str, **settings: Any) -> Consumer:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            # A member detects a rebalance by its next heartbeat.
            "heartbeat.interval.ms": 200,
            **settings,
        }
        made.append(Consumer({key: value for key, value in config.items() if value is not None}))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})
