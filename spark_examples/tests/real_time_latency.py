"""Latencies of real_time.py from a producer to a consumer of the copies, with Odradek or with Apache Kafka as the broker.

python -m spark_examples.tests.real_time_latency odradek 500
python -m spark_examples.tests.real_time_latency apache 500
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import quantiles

from confluent_kafka import Consumer, Producer

from compat_tests.broker_process import BrokerProcess
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka

PARTITIONS = 2
_SPACING_S, _DEADLINE_S = 0.02, 300


def latencies(bootstrap: str, source: str, target: str, count: int) -> list[float]:
    """Sends records one after the other, and returns the seconds until each is read from the target, in no order. The first
    record is not among them: it waits for the query.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([target])
    sent: dict[str, float] = {}
    found: dict[str, float] = {}
    deadline = time.monotonic() + _DEADLINE_S
    next_s = time.monotonic()
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records in {_DEADLINE_S} s"
        # The second is sent when the first has come through.
        if len(sent) < count and time.monotonic() >= next_s and (not sent or found):
            name = f"M{len(sent)}"
            sent[name] = time.monotonic()
            producer.produce(source, name, partition=len(sent) % PARTITIONS)
            producer.flush()
            next_s = time.monotonic() + _SPACING_S
        message = consumer.poll(0.005)
        if message is not None and not message.error():
            name = message.value().decode()
            found.setdefault(name, time.monotonic() - sent[name])
    consumer.close()
    return [seconds for name, seconds in found.items() if name != "M0"]


def main(kind: str, count: int) -> None:
    from topics import ensure_topic

    from spark_examples.tests.programs import Program

    broker: type[BrokerProcess] = {"odradek": OdradekProcess, "apache": ApacheKafka}[kind]
    with tempfile.TemporaryDirectory() as name, broker(Path(name) / "broker", dict(SINGLE_NODE)) as running:
        folder = Path(name)
        ensure_topic(running.bootstrap, "in", PARTITIONS)
        words = ("--source", "in", "--target", "out", "--checkpoint", str(folder / "c"), "--every", "10 seconds")
        program = Program(folder / "log", "real_time.py", *words, "--bootstrap", running.bootstrap)
        try:
            seconds = latencies(running.bootstrap, "in", "out", count)
        finally:
            program.kill()
        cuts = quantiles(seconds, n=100)
        print(f"{kind}: {count} records, median {cuts[49] * 1000:.1f} ms, 90% {cuts[89] * 1000:.1f} ms, ", end="")
        print(f"99% {cuts[98] * 1000:.1f} ms, least {min(seconds) * 1000:.1f} ms")


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    main(sys.argv[1], int(sys.argv[2]))
