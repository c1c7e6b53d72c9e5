"""GetTelemetrySubscriptions and PushTelemetry (KIP-714), compared with an Apache Kafka 4.3.1 that has a metrics receiver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.compression import Compression, compress

from compat_tests.differential.compare import Side, compare
from compat_tests.differential.runner import advertised
from compat_tests.differential.scenario import Scenario, Step, ask, prepare, scenario
from compat_tests.fixtures import UNDER_TEST
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

_STARTER = Path(__file__).resolve().parents[1] / "java" / "TelemetryStart.java"
_MAX_BYTES = "5000"
CLIENT_METRICS = 16
#: An interval longer than a scenario, and a shorter one.
LONG_MS, SHORT_MS = 3_600_000, 100
OTLP = b"\x0a\x00"
OLD, NEW = bytes(16), b"a fixed id here."


def subscribed(metrics: str, *, interval_ms: int, to: str = "main", name: str = "$s") -> list[Step]:
    """Subscribes the connection `to`, and waits until a new instance gets the subscription."""
    values = {"metrics": metrics, "interval.ms": str(interval_ms), "match": f"client_id={to}"}
    changes = [{"name": key, "config_operation": 0, "value": value} for key, value in values.items()]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}

    def holds(response: Any) -> bool:
        return sorted(response.requested_metrics) == sorted(metrics.split(","))

    return [
        prepare("IncrementalAlterConfigs", resources=[resource]),
        prepare("GetTelemetrySubscriptions", on=to, client_instance_id=OLD, until=holds),
    ]


def unsubscribed(name: str = "$s") -> Step:
    changes = [{"name": key, "config_operation": 1, "value": None} for key in ("metrics", "interval.ms", "match")]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
    return prepare("IncrementalAlterConfigs", resources=[resource])


def get(instance: Any = OLD, **keep: str) -> Step:
    return ask("GetTelemetrySubscriptions", client_instance_id=instance, keep=keep)


def push(metrics: bytes = OTLP, **fields: Any) -> Step:
    reported = {
        "client_instance_id": "@id",
        "subscription_id": "@subscription",
        "compression_type": 0,
        "terminating": False,
    }
    return ask("PushTelemetry", **(reported | {"metrics": metrics} | fields))


ASKED = get(id="client_instance_id", subscription="subscription_id")

SCENARIOS = [
    scenario("GetTelemetrySubscriptions", "a client without subscriptions", get(), get(NEW), get(NEW)),
    scenario(
        "GetTelemetrySubscriptions",
        "a client with a subscription",
        subscribed("org.apache.kafka.producer.,b.", interval_ms=LONG_MS // 60),
        ASKED,
        get("@id"),
        push(),
        get("@id"),
        unsubscribed(),
    ),
    scenario(
        "GetTelemetrySubscriptions",
        "all metrics swallow the others and the shortest interval holds",
        subscribed("a.", interval_ms=2000, name="$one"),
        subscribed("*", interval_ms=1000, name="$two"),
        get(),
        unsubscribed("$one"),
        unsubscribed("$two"),
    ),
    scenario("PushTelemetry", "a push and the next one too early", ASKED, push(), push(), push(b"")),
    scenario(
        "PushTelemetry",
        "a terminating push is the last",
        ASKED,
        push(),
        push(terminating=True),
        push(),
        push(terminating=True),
    ),
    scenario("PushTelemetry", "a wrong subscription id", ASKED, push(subscription_id=1), push(), get("@id")),
    scenario("PushTelemetry", "an instance that never asked", push(client_instance_id=NEW, subscription_id=1)),
    scenario("PushTelemetry", "no instance id", push(client_instance_id=OLD, subscription_id=1)),
    *(
        scenario("PushTelemetry", f"the instance id {low}", push(client_instance_id=low.to_bytes(16), subscription_id=1))
        for low in (1, 2, 99, 100)
    ),
    scenario("PushTelemetry", "an unknown compression", ASKED, push(compression_type=5), push()),
    scenario("PushTelemetry", "as large as may be", ASKED, push(bytes(5000))),
    scenario("PushTelemetry", "too large", ASKED, push(bytes(5001))),
    scenario("PushTelemetry", "too large and of a wrong subscription", ASKED, push(bytes(5001), subscription_id=1)),
    scenario("PushTelemetry", "no metrics", ASKED, push(b"")),
    scenario("PushTelemetry", "bytes that are no metrics", ASKED, push(b"\xff" * 10), push(terminating=True)),
    *(
        scenario(
            "PushTelemetry",
            f"compressed with {compression.name.lower()}",
            ASKED,
            push(bytes(compress(compression, OTLP)), compression_type=int(compression)),
            push(b"\xff" * 10, compression_type=int(compression), terminating=True),
        )
        for compression in Compression
        if compression
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def oracle(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    properties = {**UNDER_TEST, "metric.reporters": "TelemetryStart$Receiver", "telemetry.max.bytes": _MAX_BYTES}
    with ApacheKafka(tmp_path_factory.mktemp("telemetry-oracle"), properties, starter=_STARTER) as broker:
        yield Side("Apache Kafka", broker.bootstrap, advertised(broker.bootstrap))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    properties = {**UNDER_TEST, "odradek.metrics.port": "0", "telemetry.max.bytes": _MAX_BYTES}
    with OdradekProcess(tmp_path_factory.mktemp("telemetry"), properties) as broker:
        yield Side("Odradek", broker.bootstrap, advertised(broker.bootstrap))


@pytest.mark.oracle
@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: f"{one.api}: {one.name}")
def test_both_brokers_answer_alike(one: Scenario, oracle: Side, ours: Side) -> None:
    done = compare(one, oracle, ours, int(time.time() * 1000))
    assert done.executed == [0]
    assert not done.differences, "\n".join(map(str, done.differences))
