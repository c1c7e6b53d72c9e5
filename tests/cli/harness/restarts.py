"""Clients of a cluster during its restarts."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from tests.cli.harness.clusters import DEADLINE_S, cluster

TOPIC = "orders"
#: Time between two records: 20 in a second show a gap, and cost the brokers a fifth of what 100 cost.
_PACE_S = 0.05


class Clients:
    """A producer with acks=all and a consumer group, both from the beginning to the end of a test."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**settings, "enable.idempotence": True, "message.timeout.ms": DEADLINE_S * 1000})
        self._consumer = Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
        self._consumer.subscribe([TOPIC])
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self.read: list[int] = []
        self._is_over = threading.Event()
        self._is_written = threading.Event()
        self._writing, self._reading = threading.Thread(target=self._write), threading.Thread(target=self._consume)
        self._writing.start()
        self._reading.start()

    def _write(self) -> None:
        number = 0
        while not self._is_over.is_set():
            self._producer.produce(TOPIC, str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(_PACE_S)
            number += 1
        self._producer.flush(DEADLINE_S)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))  # type: ignore[attr-defined]
        else:
            self.failed.append(str(error))

    def _consume(self) -> None:
        while not self._is_written.is_set() or self._lacks_records():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(int(message.value()))
        self._consumer.close()

    def _lacks_records(self) -> bool:
        return len(set(self.read)) < self._last and time.monotonic() < self._deadline

    def go_on(self) -> None:
        """Waits until the group has read records that were acknowledged after the call."""
        last = max(self.acknowledged, default=-1)
        eventually(lambda: max(self.read, default=-1) > last + 5, what="clients go on", deadline_s=DEADLINE_S)

    def end(self) -> None:
        self._is_over.set()
        self._writing.join(DEADLINE_S)
        self._last = len(self.acknowledged)
        self._deadline = time.monotonic() + DEADLINE_S
        self._is_written.set()
        self._reading.join(2 * DEADLINE_S)


def row(directory: Path, node: int) -> list[str]:
    """Returns the line of a node in `odradek cluster status`."""
    lines = odradek_command("cluster", "status", "--data-dir", str(directory)).out.splitlines()
    return next(re.split(r"\s{2,}", line) for line in lines if line.startswith(f"{node} "))


def restarted(directory: Path, *more: str) -> str:
    done = subprocess.run(cluster("restart", directory, *more), capture_output=True, text=True, timeout=3 * DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
