"""Share consumers get the records that only the store has: librdkafka's and Apache's client."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, ShareConsumer

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.share_faults.faults import java_member
from compat_tests.share_faults.member import POISON_EVERY
from tests.server.harness.share_groups import configure

from . import stores, tiered

COUNT = 4000
GROUP = "members"


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return stores.controlled(folder) | {
        "group.share.heartbeat.interval.ms": "200",
        "group.share.min.heartbeat.interval.ms": "100",
    }


def consume(bootstrap: str, count: int, on_count: dict[int, Callable[[], None]] | None = None) -> dict[int, bytes]:
    """Returns the records that a group gets, by offset, and accepts them. `on_count`: called once so many have come."""
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "reconnect.backoff.max.ms": 300})
    consumer.subscribe([tiered.TOPIC])
    found: dict[int, bytes] = {}
    calls = dict(on_count or {})
    deadline = time.monotonic() + 90
    while len(found) < count and time.monotonic() < deadline:
        try:
            found |= {one.offset(): one.value() for one in consumer.poll(0.5) if one.error() is None}
        except KafkaException:
            continue
        for at in [at for at in calls if len(found) >= at]:
            calls.pop(at)()
    consumer.close()
    return found


def fill(broker: OdradekProcess) -> list[bytes]:
    tiered.make_topic(broker.bootstrap)
    configure(broker.bootstrap, GROUP)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    return values


def test_share_group_gets_all_records_of_the_store_across_a_kill(broker: OdradekProcess) -> None:
    values = fill(broker)

    def restart() -> None:
        broker.kill()
        broker.start()

    assert sorted(consume(broker.bootstrap, COUNT, {COUNT // 4: restart}).items()) == tiered.numbered(values)


@pytest.mark.parametrize("how", [stores.HOLD, stores.FAIL])
def test_share_group_gets_the_records_once_the_store_is_back(broker: OdradekProcess, folder: Path, how: str) -> None:
    values = fill(broker)
    (folder / how).touch()
    process = subprocess.Popen(["sh", "-c", 'sleep 4; rm "$0"', str(folder / how)])
    try:
        assert sorted(consume(broker.bootstrap, COUNT).items()) == tiered.numbered(values)
        assert process.poll() == 0, "records came from a store that does not answer"
    finally:
        process.wait(30)


@pytest.mark.slow
def test_apache_s_share_consumer_gets_the_records_of_the_store(
    java_tools: None, broker: OdradekProcess, tmp_path: Path
) -> None:
    tiered.make_topic(broker.bootstrap)
    configure(broker.bootstrap, GROUP)
    tiered.produce(broker.bootstrap, [b"%01000d" % (POISON_EVERY * number + 1) for number in range(COUNT)])
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    history = tmp_path / "history.jsonl"

    def has_all() -> bool:
        words = [
            json.loads(line)
            for line in history.read_text().rpartition("\n")[0].splitlines()
            if line.startswith('["given"')
        ]
        given = {offset: value for _, _, _, records in words for _, offset, _, value in records}
        assert all(POISON_EVERY * offset + 1 == value for offset, value in given.items())
        return given.keys() >= set(range(COUNT // 2))

    with history.open("w") as out:
        command = [*java_member(), broker.bootstrap, tiered.TOPIC, GROUP, "1"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out)
    try:
        eventually(has_all, what="the member was given the records of the store", deadline_s=120)
    finally:
        process.terminate()
        process.wait(60)
