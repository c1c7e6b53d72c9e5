"""The dashboard and the alert rules use metrics that a broker serves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import odradek
import pytest
import yaml

from compat_tests.broker_process import free_port
from tests.docs.pages import DOCS, ROOT

MONITORING = DOCS / "monitoring"
#: A metric's name in PromQL; names of functions and labels have no such prefix.
_METRIC = re.compile(r"\b(?:kafka|odradek|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def served() -> frozenset[str]:
    """Returns the names of the metrics that a broker serves."""
    port = free_port()
    with (
        odradek.Broker(config={"odradek.metrics.port": str(port)}),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
    ):
        text = answer.read().decode()
    return frozenset(re.findall(r"^# HELP (\S+)", text, re.M))


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


def test_the_dashboard_is_the_one_that_its_program_writes() -> None:
    written = (MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8")
    code = "import json, dashboard; print(json.dumps(dashboard.dashboard(), indent=1))"
    made = subprocess.run([sys.executable, "-c", code], cwd=MONITORING, capture_output=True, text=True, check=True)
    assert made.stdout == written, "run: python docs/monitoring/dashboard.py"
    assert str(ROOT) not in written
