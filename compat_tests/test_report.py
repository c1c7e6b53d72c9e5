"""Checks that docs/specialists/compatibility.md matches the code."""

from __future__ import annotations

import re

from compat_tests import report
from compat_tests.differential.runner import advertised
from compat_tests.odradek_process import OdradekProcess

#: Advertised where the metrics of clients have a receiver (KIP-714): `odradek.metrics.port` or an OTLP endpoint.
WITH_RECEIVER = {"GetTelemetrySubscriptions", "PushTelemetry"}


def test_the_document_lists_every_served_api_with_its_versions() -> None:
    text = report.DOCUMENT.read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) \| (\w+) \| ([\d-]+) \|", text, re.MULTILINE)
    wanted = [(str(api.key), api.name, report.offered(api)) for api in report.served()]
    assert listed == wanted, "run `python -m compat_tests.report` after the tests"


def test_broker_advertises_the_apis_that_have_a_handler(odradek: OdradekProcess) -> None:
    reported = {
        name: f"{low}-{high}" if low != high else str(low)
        for name, (low, high) in advertised(odradek.bootstrap).items()
    }
    assert reported == {api.name: report.offered(api) for api in report.served() if api.name not in WITH_RECEIVER}


def test_every_client_has_a_row() -> None:
    text = report.DOCUMENT.read_text(encoding="utf-8")
    folders = {path.parent.name for path in report.ROOT.glob("compat_tests/*/tests.allow")}
    assert folders <= report.CLIENTS.keys()
    assert all(report.CLIENTS[folder][0] in text for folder in folders)
