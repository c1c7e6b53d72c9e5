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
#: Time that the store is held: several times `remote.fetch.max.wait.ms`.
HELD_S = 3.0


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return stores.controlled(folder)


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
        until, rounds, longest_s = time.monotonic() + HELD_S, 0, 0.0
        while time.monotonic() < until:
            began = time.monotonic()
            tiered.produce(broker.bootstrap, [b"x"], topic="local")
            longest_s = max(longest_s, time.monotonic() - began)
            rounds += 1
        assert tiered.consume(broker.bootstrap, rounds, topic="local") == tiered.numbered([b"x"] * rounds)
        assert rounds >= 5 and longest_s < HELD_S / 2 and not found
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
