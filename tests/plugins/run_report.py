"""Rules of a whole run: missing tools, skips in CI, and the time of each folder. Loaded by tests/run and tests/check.

A test that needs a missing tool skips by `compat_tests.needed_tools.missing`, and the run ends with the list of tools. In
CI any skipped test fails. Where ODRADEK_TEST_TIMES names a folder, each process writes the times of its tests there;
`python tests/plugins/run_report.py FOLDER [LASTED]` prints the 20 slowest tests, compares each folder of tests with its
budget. With LASTED, a folder of files by tests/run, it prints the times of the processes, too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_MISSING = "missing tool: "
_SLOWEST = 20
#: CPU seconds of the tests of a folder and of the processes that they start: two and a half times of what they take on a
#: quiet machine. A second of a core that others share does less. A folder with more has a loop that spins, or starts brokers
#: that it could share.
BUDGETS = {
    "tests/archive": 400,
    "tests/cli": 300, "tests/columns": 450, "tests/console": 110, "tests/coordinator": 150, "tests/docs": 650,
    "tests/hostile": 500, "tests/kernel": 120, "tests/metadata": 40, "tests/protocol": 150, "tests/replication": 140,
    "tests/security": 60, "tests/server": 800, "tests/storage": 180, "tests/testing": 240,
    "tests/tiers": 150,
    "compat_tests/archive": 120,
    "compat_tests/authorization": 60, "compat_tests/cli": 300, "compat_tests/cluster": 950, "compat_tests/console": 550,
    "compat_tests/differential": 400, "compat_tests/ecosystem": 120, "compat_tests/exactly_once": 200,
    "compat_tests/faults": 280, "compat_tests/group_faults": 60, "compat_tests/quotas": 30,
    "compat_tests/histories": 250, "compat_tests/sent_again": 120, "compat_tests/share_faults": 60,
    "compat_tests/tiers": 1_000,
}  # fmt: skip
#: For folders without a budget of their own.
_OTHER_BUDGET = 600

_times: list[tuple[str, float, float]] = []
_missing: Counter[str] = Counter()


def pytest_configure() -> None:
    """Programs in the background inherit that SIGINT is ignored, and hand it on: commands under test would not end by it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _cpu_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    began, began_cpu = time.monotonic(), _cpu_s()
    try:
        return (yield)
    finally:
        _times.append((item.nodeid, time.monotonic() - began, _cpu_s() - began_cpu))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[Any]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):  # type: ignore[attr-defined]
        report.outcome = "failed"  # type: ignore[attr-defined]
        report.longrepr = f"{item.nodeid} was skipped, which is not allowed in CI: {report.longrepr}"  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.skipped and isinstance(report.longrepr, tuple):
        _, _, tool = report.longrepr[2].partition(_MISSING)
        if tool:
            _missing[tool] += 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _missing:
        terminalreporter.section("missing tools")
        for tool, count in sorted(_missing.items()):
            terminalreporter.line(f"{tool} ({count} tests skipped)")


def pytest_sessionfinish() -> None:
    folder = os.environ.get("ODRADEK_TEST_TIMES")
    if folder and (_times or _missing):
        written = {"times": _times, "missing": _missing}
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(written), encoding="utf-8")


def _folder_of(test: str) -> str:
    return "/".join(test.partition("::")[0].split("/")[:2])


def summarize(folder: Path) -> int:
    """Prints the slowest tests, the folders and the missing tools. Returns 1 if a folder takes too long."""
    times: list[tuple[str, float, float]] = []
    missing: Counter[str] = Counter()
    for file in folder.glob("*.json"):
        written = json.loads(file.read_text(encoding="utf-8"))
        times += written["times"]
        missing.update(written["missing"])
    print(f"the {_SLOWEST} slowest tests, seconds and CPU seconds:")
    for test, lasted, used in sorted(times, key=lambda row: -row[1])[:_SLOWEST]:
        print(f"{lasted:8.1f} {used:8.1f}  {test}")
    lasted_in: Counter[str] = Counter()
    used_in: Counter[str] = Counter()
    for test, lasted, used in times:
        lasted_in[_folder_of(test)] += lasted
        used_in[_folder_of(test)] += used
    print("folders, seconds, CPU seconds, budget of CPU seconds:")
    over = []
    for name, used in sorted(used_in.items(), key=lambda row: -row[1]):
        budget = BUDGETS.get(name, _OTHER_BUDGET)
        print(f"{lasted_in[name]:8.0f} {used:8.0f} {budget:8.0f}  {name}")
        over += [name] if used > budget else []
    for tool, count in sorted(missing.items()):
        print(f"missing tool: {tool} ({count} tests skipped)")
    if over:
        print(f"over their budget (tests/plugins/run_report.py): {', '.join(over)}")
    return 1 if over else 0


def _seconds(minutes: str) -> float:
    """Returns the seconds of a time as the shell prints it: `2m3.450s`."""
    whole, _, rest = minutes.removesuffix("s").partition("m")
    return 60 * int(whole) + float(rest)


def lasted_lines(folder: Path) -> list[str]:
    """Returns a line for each process of tests/run: its seconds, and the CPU seconds of all that it has waited for."""
    rows = []
    for file in folder.iterdir():
        lasted, _, children = file.read_text(encoding="utf-8").splitlines()
        rows.append((int(lasted), sum(_seconds(one) for one in children.split()), file.name))
    return [f"{lasted:8} {used:8.0f}  {name}" for lasted, used, name in sorted(rows, reverse=True)]


if __name__ == "__main__":
    for of_processes in sys.argv[2:]:
        print("processes, seconds, CPU seconds:", *lasted_lines(Path(of_processes)), sep="\n")
    sys.exit(summarize(Path(sys.argv[1])))
