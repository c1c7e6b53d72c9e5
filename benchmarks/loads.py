"""Foreign load programs: Apache's performance tools and librdkafka. None is ours, so none favours a broker.

Each function runs one load to its end and returns what the program itself reported.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compat_tests.java.fetch import classpath, java

_TOOL_JVM = ("-Xmx512m", "-XX:+UseSerialGC")
_DEADLINE_S = 600
_RDKAFKA = Path(__file__).with_name("rdkafka_load.py")
_END_TO_END = Path(__file__).with_name("EndToEndLoad.java")
_JOINS = Path(__file__).with_name("JoinLoad.java")


@dataclass(frozen=True)
class Load:
    """One run: `records` of `size` bytes in `seconds`; latencies in ms by percentile if the program reports them."""

    records: int
    size: int
    seconds: float
    latency_ms: dict[str, float]

    @property
    def megabytes(self) -> float:
        return self.records * self.size / 1e6

    @property
    def megabytes_per_s(self) -> float:
        return self.megabytes / self.seconds

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


def _tool(name: str, *arguments: str) -> str:
    return _java(name, f"org.apache.kafka.tools.{name}", *arguments)


def _java(name: str, *program: str) -> str:
    command = [java(), *_TOOL_JVM, "-cp", classpath("4.3.1"), *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


_PRODUCED = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec .*?, ([\d.]+) ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th"
)


def java_produce(
    bootstrap: str, topic: str, records: int, size: int, *, command_config: Path | None = None, **properties: str
) -> Load:
    """Runs ProducerPerformance, unthrottled. `properties` are producer settings, with _ for the dots; `command_config` is a
    file with further ones.
    """
    settings = [f"{key.replace('_', '.')}={value}" for key, value in properties.items()]
    printed = _tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", *settings),
        *_config(command_config),
    )
    found = _PRODUCED.findall(printed)[-1]
    latency = {"p50": float(found[4]), "p99": float(found[6])}
    return Load(int(found[0]), size, int(found[0]) / float(found[1]), latency)


def _config(file: Path | None) -> tuple[str, ...]:
    return () if file is None else ("--command-config", str(file))


def java_consume(bootstrap: str, topic: str, records: int, size: int, *, command_config: Path | None = None) -> Load:
    """Runs ConsumerPerformance from the start of the topic. The time is that of fetching, without the join."""
    printed = _tool(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--hide-header", "--timeout", "30000"),
        *_config(command_config),
    )
    columns = printed.strip().splitlines()[-1].split(",")
    return Load(int(columns[4]), size, int(columns[7]) / 1000, {})


def java_share_consume(bootstrap: str, topic: str, records: int, size: int, members: int) -> Load:
    """Runs ShareConsumerPerformance with `members` members of the group that has the topic's name."""
    printed = _tool(
        "ShareConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--num-records", str(records)),
        # The timeout covers the whole run, too.
        *("--hide-header", "--timeout", "180000", "--threads", str(members)),
    )
    columns = printed.strip().splitlines()[-1].split(",")
    assert "WARNING" not in printed, printed
    return Load(int(columns[5]), size, int(columns[6]) / 1000, {})


def java_end_to_end(bootstrap: str, topic: str, records: int, size: int, acks: str) -> Load:
    """Runs EndToEndLoad.java: one record at a time, from send to receipt, with Apache's producer and consumer."""
    words = (bootstrap, topic, str(records), str(size), acks)
    response = json.loads(_java("EndToEndLoad", str(_END_TO_END), *words))
    return Load(response["records"], size, response["seconds"], response["latency_ms"])


def java_joins(bootstrap: str, topic: str, joins: int, size: int) -> Load:
    """Runs JoinLoad.java: Apache's consumer joins a new group and waits for its first record, `joins` times."""
    response = json.loads(_java("JoinLoad", str(_JOINS), bootstrap, topic, str(joins)))
    return Load(response["records"], size, response["seconds"], response["latency_ms"])


def rdkafka(bootstrap: str, topic: str, what: str, records: int, size: int, **properties: str) -> Load:
    """Runs rdkafka_load.py in its own process: `what` is produce, consume, tail, paced or join."""
    settings = [f"{key.replace('_', '.')}={value}" for key, value in properties.items()]
    command = [sys.executable, str(_RDKAFKA), what, bootstrap, topic, str(records), str(size), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode:
        raise RuntimeError(f"librdkafka {what} failed:\n{done.stderr[-2000:]}")
    response = json.loads(done.stdout)
    return Load(response["records"], size, response["seconds"], response.get("latency_ms", {}))
