"""A store that is slow or fails costs only those who read from it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from compat_tests.odradek_process import OdradekProcess

from . import stores, tiered

COUNT = 6000
#: Time that the store is held for a measurement: several times `remote.fetch.max.wait.ms`.
HELD_S = 3.0
#: Other processes may disturb one measurement, and not all of them.
_MEASUREMENTS = 5


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return stores.controlled(folder)


def produced(broker: OdradekProcess) -> list[float]:
    """Produces single records for `HELD_S`, five at least. Returns the seconds that each one took."""
    until, took_s = time.monotonic() + HELD_S, list[float]()
    while time.monotonic() < until or len(took_s) < 5:
        began = time.monotonic()
        tiered.produce(broker.bootstrap, [b"x"], topic="local")
        took_s.append(time.monotonic() - began)
    return took_s


@pytest.mark.parametrize("how", [stores.HOLD, stores.FAIL])
def test_others_are_served_while_the_store_does_not_answer(broker: OdradekProcess, folder: Path, how: str) -> None:
    tiered.make_topic(broker.bootstrap)
    tiered.make_topic(broker.bootstrap, name="local", remote_storage_enable="false", local_retention_bytes="-2")
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    (folder / how).touch()
    found: list[list[tuple[int, bytes]]] = []
    reader = threading.Thread(target=lambda: found.append(tiered.consume(broker.bootstrap, COUNT)))
    reader.start()
    try:
        took_s: list[list[float]] = []
        while not (took_s and max(took_s[-1]) < HELD_S / 2) and len(took_s) < _MEASUREMENTS:
            took_s.append(produced(broker))
        rounds = sum(map(len, took_s))
        assert tiered.consume(broker.bootstrap, rounds, topic="local") == tiered.numbered([b"x"] * rounds)
        assert max(took_s[-1]) < HELD_S / 2 and not found, took_s
    finally:
        (folder / how).unlink()
        reader.join(60)
    assert found == [tiered.numbered(values)]


def test_several_partitions_of_a_fetch_are_read_at_once(broker: OdradekProcess, folder: Path) -> None:

    tiered.make_topic(broker.bootstrap, partitions=3)
    values = tiered.values_of(COUNT // 2)
    for partition in range(3):
        tiered.produce(broker.bootstrap, values, partition=partition)
    for partition in range(3):
        tiered.await_remote(folder, 2, partition=partition)
        tiered.await_local_start(broker.data_dir, 1, partition=partition)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "all", "enable.auto.commit": False})
    consumer.assign([TopicPartition(tiered.TOPIC, partition, OFFSET_BEGINNING) for partition in range(3)])
    found: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(3)}
    deadline = time.monotonic() + 60
    while sum(map(len, found.values())) < 3 * len(values) and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            found[message.partition()].append((message.offset(), message.value()))
    consumer.close()
    assert found == {partition: tiered.numbered(values) for partition in range(3)}
