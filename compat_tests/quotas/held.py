"""Measures a client with a quota beside one without. `python -m compat_tests.quotas` gives the reasons."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.quota_entities import EntityData

from ..java.program import java_command
from ..recipes import eventually, make_topic
from ..wire import WireClient
from . import client as programs

KINDS = ("kafka-python", "librdkafka", "java")
WHATS = ("produce", "consume")
QUOTA = 1_000_000.0
#: Bytes per second that the second client produces or reads.
FREE = 3_000_000.0
HELD_ID, FREE_ID = "held", "free"
_MB = 1 << 20
#: In ConsumerPerformance's output: the MB consumed so far.
_CONSUMED = re.compile(r"^\S+ \S+, \d+, (\d+\.\d+),", re.MULTILINE)
#: In ProducerPerformance's output: the records of an interval.
_SENT = re.compile(r"^(\d+) records sent,", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """Bytes per second of both clients, and the rate at which the free one ran."""

    held: float
    free: float
    offered: float

    def __str__(self) -> str:
        return f"held {self.held / 1e6:.3f} MB/s, free {self.free / 1e6:.3f} MB/s of {self.offered / 1e6:g}"


class Running:
    """A client's process, and the bytes that it has reported."""

    def __init__(self, command: list[str], output: Path, count: Callable[[str], float]) -> None:
        self._output = output
        self._count = count
        self._file = output.open("w")
        self._process = subprocess.Popen(command, stdout=self._file, stderr=subprocess.STDOUT)

    def bytes(self) -> float:
        assert self._process.poll() is None, self._output.read_text()[-2000:]
        return self._count(self._output.read_text())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._file.close()


def _last(text: str) -> float:
    whole = text.rpartition("\n")[0].splitlines()
    return float(whole[-1]) if whole else 0.0


def start(kind: str, what: str, bootstrap: str, topic: str, client_id: str, directory: Path, *rate: str) -> Running:
    output = directory / f"{client_id}-{kind}-{what}.out"
    if kind != "java":
        command = [sys.executable, str(Path(programs.__file__)), kind, what, bootstrap, topic, client_id, *rate]
        return Running(command, output, _last)
    if what == "produce":
        command = java_command("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "100000000",
                "--record-size", str(len(programs.VALUE)), "--throughput", "-1", "--reporting-interval", "100",
                "--command-property", f"bootstrap.servers={bootstrap}", "acks=1", f"client.id={client_id}",
                "buffer.memory=2000000", "batch.size=100000", "max.block.ms=600000",
                "delivery.timeout.ms=600000")  # fmt: skip
        return Running(command, output, lambda text: len(programs.VALUE) * sum(map(int, _SENT.findall(text))))
    command = java_command("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
            "--num-records", "100000000", "--show-detailed-stats", "--reporting-interval", "100", "--timeout", "600000",
            "--command-property", f"client.id={client_id}", "auto.offset.reset=earliest")  # fmt: skip
    return Running(command, output, lambda text: _MB * float((_CONSUMED.findall(text) or ["0"])[-1]))


def set_quota(bootstrap: str, what: str, per_second: float | None) -> None:
    """Sets the quota of the held client; None removes it."""
    key = "producer_byte_rate" if what == "produce" else "consumer_byte_rate"
    entity = [EntityData(entity_type="client-id", entity_name=HELD_ID)]
    change = [OpData(key=key, value=per_second or 0.0, remove=per_second is None)]
    with WireClient(bootstrap) as client:
        (entry,) = client.call(
            AlterClientQuotasRequest([EntryDataRequest(entity=entity, ops=change)], False), 1
        ).entries
    assert entry.error_code == 0, entry.error_message


def filled(bootstrap: str, topic: str, size: float) -> None:
    """Writes `size` bytes of values to partition 0."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "filling", "linger.ms": 5, "acks": "1"})
    for _ in range(int(size / len(programs.VALUE))):
        while True:
            try:
                producer.produce(topic, programs.VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def measure(
    bootstrap: str, kind: str, what: str, directory: Path, *, seconds: float, warm_s: float, free: float = FREE
) -> Outcome:
    """Runs both clients. The first `warm_s` seconds do not count: a client may use up earlier windows in them."""
    topics = [f"{name}-{kind}-{what}-{time.monotonic_ns()}" for name in (HELD_ID, FREE_ID)]
    for topic in topics:
        make_topic(bootstrap, topic)
    if what == "consume":
        filled(bootstrap, topics[0], QUOTA * (seconds + 3 * warm_s + 15))
        filled(bootstrap, topics[1], free * (seconds + warm_s + 30))
    set_quota(bootstrap, what, QUOTA)
    running: list[Running] = []
    try:
        running.append(start(kind, what, bootstrap, topics[0], HELD_ID, directory))
        running.append(start("librdkafka", what, bootstrap, topics[1], FREE_ID, directory, str(free)))
        for one in running:
            eventually(lambda one=one: one.bytes() > 0, what="the client has begun", deadline_s=60)
        held, others = _over(running, seconds, warm_s)
        return Outcome(held, others, free)
    finally:
        for one in running:
            one.end()
        set_quota(bootstrap, what, None)


def _over(running: list[Running], seconds: float, warm_s: float) -> tuple[float, ...]:
    """Returns the rates between two reports of each client."""
    time.sleep(warm_s)  # a duration that is part of the measurement
    before = [_report(one) for one in running]
    time.sleep(seconds)
    after = [_report(one) for one in running]
    return tuple((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(before, after, strict=True))


def _report(running: Running) -> tuple[float, float]:
    return time.monotonic(), running.bytes()
