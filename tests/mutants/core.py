"""The modules of the core, in which a lost record, a second leader or a forbidden request would begin, and their tests.

The tables of configuration keys and of messages are left out: they are data, which other tests compare with Apache Kafka.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "protocol/records",
    "metadata",
    "replication",
    "coordinator",
    "storage",
    "server/partitions",
    "server/replicas",
    "server/access/authorization",
    "server/controller",
    "server/coordinators",
    "server/produce",
    "server/fetch",
)
_TABLES = "metadata/configs/*"
#: Functions that run while their package is imported, before a mutant could take their place.
_RUN_AT_IMPORT = "protocol/records/lower_record.py"
#: The folders of their tests. Left out are compat_tests/ and tests that start processes, since what they start runs without
#: the mutant; and tests without a limit of time, which take minutes.
TEST_FOLDERS = (
    "archive",
    "client",
    "console",
    "coordinator",
    "explored",
    "hostile",
    "metadata",
    "protocol",
    "replication",
    "security",
    "server",
    "storage",
    "testing",
)
_STARTING = {"processes", "java_tools"}
_ALL_START = re.compile(r'^pytestmark = .*usefixtures\("processes"\)', re.MULTILINE)


def modules(patterns: list[str]) -> list[str]:
    """The core's modules, as paths from the root; with patterns such as `storage/*`, those that match one."""
    found = [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    kept = [module for module in found if module != _RUN_AT_IMPORT and not fnmatch(module, _TABLES)]
    return sorted(module for module in kept if not patterns or any(fnmatch(module, pattern) for pattern in patterns))


def files_of_tests() -> list[str]:
    files = [path for folder in TEST_FOLDERS for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    return sorted(
        path.relative_to(ROOT).as_posix() for path in files if not _ALL_START.search(path.read_text(encoding="utf-8"))
    )


class InThisProcess:
    """A plugin of pytest that leaves out tests which may start processes, or have no limit of time."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [
            item for item in items if not _STARTING.isdisjoint(getattr(item, "fixturenames", ())) or _has_no_limit(item)
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _has_no_limit(item: pytest.Item) -> bool:
    timeout = item.get_closest_marker("timeout")
    return timeout is not None and timeout.args == (0,)
