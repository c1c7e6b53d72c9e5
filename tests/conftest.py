"""The tiers of the tests below this folder, by their fixtures.

| tier | a test of it | fixture |
|---|---|---|
| pure | neither binds a socket nor starts a process | none |
| broker | may have a broker in this process | `sockets`, or a fixture that depends on it |
| everything | may start processes: brokers, Java, browsers | `processes` or `java_tools` |

`--tier pure` and `--tier broker` select the tests up to a tier (`make check`, `make check-broker`). There, a test that does
more than its tier allows fails. A test with the marker `slow` takes seconds, and belongs to the last tier. `--few-examples`
(both of them, and `make test`) is for random tests: tests/harness/examples.py.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, SupportsIndex

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from tests.harness.examples import FEW, divide_examples, examples
from tests.harness.tiers import (
    BROKER,
    EVERYTHING,
    PURE,
    TIER_OF_FIXTURE,
    TIERS,
    tier_of,
)

_STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system")
#: A module whose tests all are in a higher tier is not imported for a lower one.
_MARK_OF_MODULE = re.compile(r'^pytestmark = .*usefixtures\("(sockets|processes)"\)', re.MULTILINE)
_SLOW_MODULE = re.compile(r"^pytestmark = .*\bmark\.slow\b", re.MULTILINE)
#: A module whose tests read the syntax trees of all sources: they stay in memory, where the garbage collector finds them.
_READS_TREES = re.compile(
    r"^from tests\.harness\.(sources|prose) import .*\b(tree_of|nodes_of|statements_of)\b", re.MULTILINE
)
_NEVER_ALLOWED = {PURE: ("socket.bind", *_STARTS), BROKER: _STARTS, EVERYTHING: ()}


class TierExceeded(BaseException):
    """A test does more than its tier allows. Not an Exception, so that the tested code does not handle it."""


class _Guard:
    """The audit hook that checks the running test."""

    def __init__(self) -> None:
        self.forbidden: tuple[str, ...] = ()
        self.found: str | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self.forbidden:
            self.found = f"{event} {arguments[:2]}"
            raise TierExceeded(self.found)


_guard = _Guard()
sys.addaudithook(_guard)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default=TIERS[-1], help="the highest tier of tests to run")
    parser.addoption("--few-examples", action="store_true", help="random tests run a tenth of their examples")


#: Slower set-ups are listed by `--durations`.
_REPORTED_S = 1.0


class _FewReports:
    """In a process of xdist: reports a test once, and a set-up or teardown only if it failed or was slow.

    The process that shows the results reads one message in place of six, which takes it as long as most tests.
    """

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration >= _REPORTED_S:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    if config.getoption("--few-examples"):
        divide_examples(FEW)
    # A busy machine takes longer for an example, whatever the product does.
    settings.register_profile("odradek", settings(), deadline=None, max_examples=examples(settings().max_examples))
    settings.load_profile("odradek")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_FewReports())


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the collector would scan a million objects of theirs again and again."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    selected = TIERS.index(config.getoption("--tier"))
    if selected == EVERYTHING or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    marked = _MARK_OF_MODULE.search(text)
    is_higher = marked is not None and TIER_OF_FIXTURE[marked[1]] > selected
    return True if is_higher or _SLOW_MODULE.search(text) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected = TIERS.index(config.getoption("--tier"))
    items.sort(key=lambda item: _reads_trees(str(item.path)))
    if selected == EVERYTHING:
        # Modules that wait for processes begin first, and the others fill the gaps.
        highest: dict[Path, int] = {}
        for item in items:
            highest[item.path] = max(highest.get(item.path, PURE), tier_of(item))
        items.sort(key=lambda item: -highest[item.path])
        return
    left_out = [item for item in items if tier_of(item) > selected or item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=left_out)
    are_left_out = set(left_out)
    items[:] = [item for item in items if item not in are_left_out]


class _Indexed(list[str]):
    """Names of tests; the library asks for the index of each, and a list compares it with all before."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self._indexes = {name: index for index, name in enumerate(self)}

    def index(self, value: str, start: SupportsIndex = 0, stop: SupportsIndex = sys.maxsize) -> int:
        return self._indexes[value]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, tests that read syntax trees are in one process: the trees take seconds to make."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "syntax trees" if _reads_trees(f"{config.rootpath}/{file}") else file

        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            self.registered_collections[node] = _Indexed(collection)

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            """Counts from the last file: a process runs its files in order. The library counts all, after each test."""
            pending = 0
            for tests in reversed(workload.values()):
                left = list(tests.values()).count(False)
                if not left:
                    break
                pending += left
            return pending

    return Scheduling(config, log)


@cache
def _reads_trees(path: str) -> bool:
    return _READS_TREES.search(Path(path).read_text(encoding="utf-8")) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    is_selected = item.config.getoption("--tier") != TIERS[EVERYTHING]
    _guard.forbidden, _guard.found = _NEVER_ALLOWED[tier_of(item)] if is_selected else (), None
    try:
        return (yield)
    finally:
        _guard.forbidden = ()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if _guard.found:
        # A thread's exception, or one that the tested code handles, must not hide it.
        report.outcome = "failed"  # type: ignore[attr-defined]
        report.longrepr = (  # type: ignore[attr-defined]
            f"{item.nodeid} is in the tier `{TIERS[tier_of(item)]}`, which forbids: {_guard.found}. Give it the fixture "
            "`sockets` or `processes` (tests/conftest.py)."
        )
        _guard.found = None
    return report


@pytest.fixture(scope="session")
def sockets() -> None:
    """Allows a test to bind sockets, such as those of a broker in this process."""


@pytest.fixture(scope="session")
def processes() -> None:
    """Allows a test to start processes."""
