"""The dashboard and the alert rules use metrics that a broker serves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
import yaml
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from compat_tests.broker_process import free_port
from compat_tests.needed_tools import needed
from compat_tests.recipes import eventually
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.usefixtures("processes")

MONITORING = DOCS / "monitoring"
UNIT_TESTS = Path(__file__).with_name("prometheus-alerts-test.yml")
DEADLINE_S = 60
#: A metric's name in PromQL; names of functions and labels have no such prefix.
_METRIC = re.compile(r"\b(?:kafka|odradek|process)_[a-z_]+\b")
#: The complaint of `promtool check metrics` about names that the JMX exporter gives to Kafka's metrics.
_SUFFIX = 'non-histogram and non-summary metrics should not have "{}" suffix'


@pytest.fixture(scope="module")
def exposition() -> str:
    """Returns /metrics of a broker with a topic and a group that is one record behind."""
    port = free_port()
    with odradek.Broker(config={"odradek.metrics.port": str(port)}) as broker:
        address = broker.bootstrap_servers
        producer = KafkaProducer(bootstrap_servers=address)
        offset = producer.send("orders", b"1").get(timeout=DEADLINE_S).offset
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=address, group_id="billing", enable_auto_commit=False)
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(offset, "", -1)})
        consumer.close()

        def respond() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as respond:
                text: str = respond.read().decode()
                return text

        eventually(
            lambda: "odradek_group_lag{" in respond(), what="the lag of the group is served", deadline_s=DEADLINE_S
        )
        return respond()


@pytest.fixture(scope="module")
def served(exposition: str) -> frozenset[str]:
    """Returns the names of the metrics that a broker serves."""
    return frozenset(re.findall(r"^# HELP (\S+)", exposition, re.M))


def promtool(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([needed("promtool"), *words], input=given, capture_output=True, text=True, timeout=DEADLINE_S)


def queries_of_the_dashboard() -> Iterator[str]:
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def alert_rules() -> list[dict[str, object]]:
    (group,) = yaml.safe_load((MONITORING / "prometheus-alerts.yml").read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, object]] = group["rules"]
    return rules


def test_the_dashboard_asks_for_metrics_that_are_served(served: frozenset[str]) -> None:
    queries = list(queries_of_the_dashboard())
    assert len(queries) > 30
    asked = {name for query in queries for name in _METRIC.findall(query)}
    assert asked - served == set()


def test_the_alerts_ask_for_metrics_that_are_served(served: frozenset[str]) -> None:
    rules = alert_rules()
    asked = {name for rule in rules for name in _METRIC.findall(str(rule["expr"]))}
    assert len(rules) >= 10 and asked - served == set()
    assert all({"severity"} == set(rule["labels"]) for rule in rules)  # type: ignore[call-overload]


def test_promtool_accepts_the_alert_rules() -> None:
    done = promtool("check", "rules", "--lint-fatal", MONITORING / "prometheus-alerts.yml")
    assert done.returncode == 0 and f"{len(alert_rules())} rules found" in done.stdout, done.stdout + done.stderr


def test_each_alert_fires_when_it_should() -> None:
    done = promtool("test", "rules", UNIT_TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))["tests"]
    expected = [(one["alertname"], bool(one["exp_alerts"])) for test in tests for one in test["alert_rule_test"]]
    for rule in alert_rules():
        assert {(rule["alert"], True), (rule["alert"], False)} <= set(expected)
    series = {name for test in tests for one in test["input_series"] for name in _METRIC.findall(one["series"])}
    assert series == {name for rule in alert_rules() for name in _METRIC.findall(str(rule["expr"]))}


def test_promtool_accepts_the_metrics(exposition: str) -> None:
    done = promtool("check", "metrics", given=exposition)
    found = [line.split(" ", 1) for line in done.stderr.splitlines()]
    assert {words for _, words in found} == {_SUFFIX.format("_count"), _SUFFIX.format("_sum")}, done.stderr
    assert [name for name, _ in found if not name.startswith("kafka_")] == ["odradek_group_lag_sum"]


def test_the_dashboard_is_the_one_that_its_program_writes() -> None:
    written = (MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8")
    code = "import json, dashboard; print(json.dumps(dashboard.dashboard(), indent=1))"
    made = subprocess.run([sys.executable, "-c", code], cwd=MONITORING, capture_output=True, text=True, check=True)
    assert made.stdout == written, "run: python docs/monitoring/dashboard.py"
    assert str(ROOT) not in written
