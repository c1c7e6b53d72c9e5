"""The journal of a pytest process, from which `tests/run_again.py` runs its failed tests again. Loaded by tests/run.

ODRADEK_TEST_JOURNALS names a folder; each process appends its lines of JSON to a file there as it goes, so that the journal
of a process that died shows which tests are left. Errors of one shared fixture have one cause: pytest raises the same
exception for each test that needs the fixture.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

FOLDER = "ODRADEK_TEST_JOURNALS"
#: Set where failed tests run again: tests that depend on the results of others take those of the first run.
AGAIN = "ODRADEK_TEST_AGAIN"
#: Variables of the environment that differ between the processes of a run.
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "VIRTUAL_ENV")


class Journal:
    """Writes the journal of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, kind: str, **fields: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **fields}) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        config = session.config
        given = [str(word) for word in config.invocation_params.args]
        options = [word for word in given if word not in config.option.file_or_dir]
        if config.pluginmanager.has_plugin("xdist"):
            options += ["--numprocesses", "0", "--dist", "no"]
        variables = {name: os.environ.get(name) for name in KEPT_VARIABLES}
        self.write("began", python=sys.executable, options=options, folder=str(Path.cwd()), variables=variables)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self.write("collected", tests=[item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The processes of xdist collect the same tests: each list is complete."""
        self.write("collected", tests=list(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write("not collected", test=report.nodeid, text=report.longreprtext)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write("started", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            cause = getattr(report, "cause", None) or report.nodeid
            self.write("failed", test=report.nodeid, when=report.when, cause=cause, text=report.longreprtext)
        elif report.when == "call" or report.skipped:
            self.write(
                "skipped" if report.skipped and not hasattr(report, "wasxfail") else "passed", test=report.nodeid
            )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.write("ended", status=int(exitstatus))


#: Exceptions of set-ups with the names of their causes; an exception that is kept has an id of its own.
_causes: dict[int, tuple[BaseException, str]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if call.when == "setup" and call.excinfo is not None and not report.skipped:
        error = call.excinfo.value
        report.cause = _causes.setdefault(id(error), (error, uuid.uuid4().hex))[1]
    return report


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER)
    # A process of xdist sends its reports to the process that has the journal.
    if folder and not hasattr(config, "workerinput"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Journal(Path(folder, f"{os.getpid()}.jsonl")), "journal-of-run")
