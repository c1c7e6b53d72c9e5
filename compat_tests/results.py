"""The results of a run: the outcome and the requests of each client test, kept for the report.

A run writes `.tools/compat-results.json`; later runs replace the results of repeated tests. `python -m compat_tests.report`
reads the file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.run_journal import AGAIN

FILE = Path(__file__).resolve().parents[1] / ".tools" / "compat-results.json"
_ROOT = FILE.parents[1]
#: Folders with tests of clients: compat_tests/<client>/, and Spark's.
_FOLDERS = ("compat_tests/", "spark_examples/")
_RECORDER = "compatibility-results"


@dataclass(frozen=True)
class Result:
    """The result of a test. `client` is its folder: "librdkafka", "java", ..."""

    test: str
    client: str
    outcome: str
    requests: frozenset[tuple[int, int]]

    @property
    def name(self) -> str:
        """Returns `test_file.py::test_name`."""
        return self.test.rpartition("/")[2]


class Recorder:
    """The pytest plugin that collects the results, and writes them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes: dict[str, str] = {}
        self.requests: dict[str, list[tuple[int, int]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.nodeid.startswith(_FOLDERS):
            return
        if report.when == "call" or report.outcome != "passed":
            worse = self.outcomes.get(report.nodeid) == "failed"
            self.outcomes[report.nodeid] = "failed" if worse else report.outcome
        if report.when == "teardown":
            self.requests[report.nodeid] = dict(report.user_properties).get("requests", [])

    def pytest_sessionfinish(self) -> None:
        if self.config.getoption("--target") == "odradek":
            picked = bool(self.config.option.keyword) or any("::" in one for one in self.config.args)
            write(self.results(), whole_files=not picked)

    def results(self) -> list[Result]:
        return [
            Result(test, client_of(test), outcome, frozenset(tuple(one) for one in self.requests.get(test, [])))
            for test, outcome in self.outcomes.items()
        ]


def of_run(config: pytest.Config) -> list[Result]:
    """Returns the results of this run so far: with those of its first process, in one that runs failed tests again."""
    recorder = config.pluginmanager.get_plugin(_RECORDER)
    assert isinstance(recorder, Recorder)
    before = read() if os.environ.get(AGAIN) else []
    return list({one.test: one for one in [*before, *recorder.results()]}.values())


def client_of(test: str) -> str:
    """Returns the client of a test: its folder under compat_tests, or "spark"; empty for other tests."""
    parts = test.split("::")[0].split("/")
    if parts[0] == "spark_examples":
        return "spark"
    return parts[1] if len(parts) > 2 else ""


def write(ran: list[Result], *, whole_files: bool) -> None:
    """Adds a run against Odradek to the file. Removes tests that are gone: their file is, or it ran whole without them."""
    if not ran:
        return
    FILE.parent.mkdir(exist_ok=True)
    with FILE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # `make test` runs some of the tests in parallel
        _replace(ran, whole_files)


def _replace(ran: list[Result], whole_files: bool) -> None:
    again = {file_of(one) for one in ran} if whole_files else set()
    known = {one.test: one for one in read() if (_ROOT / file_of(one)).exists() and file_of(one) not in again}
    known.update({one.test: one for one in ran})
    FILE.write_text(json.dumps([as_json(one) for one in sorted(known.values(), key=lambda one: one.test)], indent=0))


def file_of(one: Result) -> str:
    return one.test.split("::")[0]


def read() -> list[Result]:
    """Returns the results of the last runs; an empty list when nothing ran yet."""
    if not FILE.exists():
        return []
    return [
        Result(one["test"], one["client"], one["outcome"], frozenset(tuple(pair) for pair in one["requests"]))
        for one in json.loads(FILE.read_text())
    ]


def as_json(one: Result) -> dict[str, Any]:
    return {"test": one.test, "client": one.client, "outcome": one.outcome, "requests": sorted(one.requests)}


def requested(some: Iterable[Result]) -> set[tuple[int, int]]:
    """Returns every (API key, version) that passed tests used."""
    return {pair for one in some if one.outcome == "passed" for pair in one.requests}
