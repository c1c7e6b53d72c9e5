"""A cluster of three with a full disk on one node: `odradek` shows it and restarts the node; clients continue."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from tests.cli.harness.clusters import DEADLINE_S, asked, started
from tests.cli.harness.restarts import TOPIC, Clients, restarted, row
from tests.hostile.full_disk import fill, make_room, small_disk

pytestmark = pytest.mark.usefixtures("processes")

if os.geteuid() != 0:  # pragma: no cover - a file system is mounted
    pytest.skip("mounting takes root", allow_module_level=True)

_DISK_BYTES = 32 << 20
_NEARLY_FULL_BYTES = 1 << 20
ARCHIVE = "archive"
_ARCHIVE_BYTES = 12 << 20
_RECORD_BYTES = 100_000
#: Retention acts within a second, in place of five minutes.
OVERRIDES = (
    "offsets.topic.num.partitions=3",
    "log.retention.check.interval.ms=500",
    "log.segment.delete.delay.ms=0",
)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields the cluster's directory, in which node 2 has its data on a small disk of its own."""
    made = tmp_path / "cluster"
    (made / "node-2").mkdir(parents=True)
    with small_disk(made / "node-2" / "data", _DISK_BYTES):
        yield made
        asked("stop", made)


def command(*words: str) -> str:
    done = odradek_command(*words)
    assert "Traceback" not in done.err, done.err
    return done.out


def findings(bootstrap: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in command("doctor", "--output", "jsonl", "-b", bootstrap).splitlines()]


def findings_about_disk_2(bootstrap: str) -> list[dict[str, str]]:
    return [one for one in findings(bootstrap) if one["check"] == "disk" and "broker 2:" in one["subject"]]


def free_on_disk_2(bootstrap: str) -> int:
    """Returns the free bytes that `odradek cluster log-dirs` shows."""
    lines = map(json.loads, command("cluster", "log-dirs", "--output", "jsonl", "-b", bootstrap).splitlines())
    (found,) = [line for line in lines if line["broker"] == 2]
    return int(found["free_bytes"])


def write_archive(admin: AdminClient, bootstrap: str) -> None:
    """Writes a topic of old records in several segments."""
    topic = NewTopic(ARCHIVE, 1, config={"segment.bytes": str(1 << 20)})
    admin.create_topics([topic])[ARCHIVE].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(_ARCHIVE_BYTES // _RECORD_BYTES):
        producer.produce(ARCHIVE, os.urandom(_RECORD_BYTES), timestamp=int(time.time() * 1000) - 60_000)
    assert producer.flush(DEADLINE_S) == 0


def out_of_sync(bootstrap: str) -> set[str]:
    """Returns the findings about the topic's partitions."""
    return {one["finding"] for one in findings(bootstrap) if one["subject"].startswith(f"{TOPIC}-")}


def test_node_with_a_full_disk_halts_and_returns_when_there_is_room(directory: Path) -> None:
    overrides = [word for one in OVERRIDES for word in ("--override", one)]
    _, addresses = started(directory, "--port", "0", *overrides)
    bootstrap, disk = ",".join(addresses), directory / "node-2" / "data"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3)])[TOPIC].result(DEADLINE_S)
    write_archive(admin, bootstrap)
    clients = Clients(bootstrap)
    try:
        clients.go_on()
        fill(disk, leave=_NEARLY_FULL_BYTES)
        (full,) = findings_about_disk_2(bootstrap)
        assert full["severity"] == "error" and "retention.ms" in full["advice"], full
        assert free_on_disk_2(bootstrap) <= _NEARLY_FULL_BYTES
        set_archive = ("config", "set", "topic", ARCHIVE, "retention.ms=1000", "-b", bootstrap)
        assert command(*set_archive) == f"set: topic {ARCHIVE}: retention.ms=1000\n"
        eventually(
            lambda: free_on_disk_2(bootstrap) > _ARCHIVE_BYTES // 2, what="retention makes room", deadline_s=DEADLINE_S
        )
        assert findings_about_disk_2(bootstrap) == []
        with contextlib.suppress(OSError):  # the node writes too, so the disk may be full earlier
            fill(disk, leave=0)
        eventually(lambda: row(directory, 2)[4] == "down", what="the node has halted", deadline_s=DEADLINE_S)
        assert "make room" in (directory / "node-2" / "node.log").read_text(encoding="utf-8")
        clients.go_on()
        eventually(
            lambda: out_of_sync(bootstrap) == {"brokers 2 are out of sync"},
            what="the doctor names the node",
            deadline_s=DEADLINE_S,
        )
        make_room(disk)
        assert "node 2 serves" in restarted(directory, "--node", "2")
        assert row(directory, 2)[4] == "serving" and row(directory, 2)[6] == row(directory, 2)[7]
        clients.go_on()
    finally:
        clients.end()
    assert clients.failed == []
    assert clients.acknowledged and clients.acknowledged <= set(clients.read)
