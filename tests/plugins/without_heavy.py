"""Hides packages that `make check` does not install: it runs the same tests after `make test`. Loaded by tests/check."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

#: Half a gigabyte, and seconds of imports in each process. Their tests run in `make test`.
MODULES = {
    "aiokafka", "boto3", "botocore", "django", "duckdb", "fastapi", "faststream", "fsspec", "grpc_tools", "gssapi",
    "kubernetes_validate", "matplotlib", "moto", "numba", "numpy", "pandas", "polars", "ptars", "pyarrow", "pyiceberg",
    "pyspark", "s3fs", "selenium", "uv",
}  # fmt: skip
#: Python's words, and those of the package for its extras.
_MISSING = re.compile(r"^E .*(?:No module named '|\bneeds? )(\w+)", re.MULTILINE)


class _Hidden:
    """A finder that finds none of the packages, and stands before the others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    sys.meta_path.insert(0, _Hidden())


def missing_module(error: str) -> str | None:
    """Returns the hidden module that an error is about."""
    return next((name for name in _MISSING.findall(error) if name in MODULES), None)


def _reason(module: str) -> str:
    return f"needs {module}, which `make check` does not install: `make test` runs it"


def _skip_if_missing(report: Any, path: object) -> Any:
    module = missing_module(report.longreprtext) if report.failed else None
    if module:
        report.outcome, report.longrepr = "skipped", (str(path), 1, _reason(module))
    return report


def _skip_before_the_report(call: pytest.CallInfo[None]) -> None:
    """Has the error of a hidden module end as a skip. The text of its traceback, which each test of a module with a fixture
    that fails would have anew, takes a tenth of a second.
    """
    error = call.excinfo.value if call.excinfo is not None else None
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module in MODULES:
        try:
            pytest.skip(_reason(module))
        except pytest.skip.Exception:
            call.excinfo = pytest.ExceptionInfo.from_current()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    return _skip_if_missing((yield), collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    _skip_before_the_report(call)
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[0] == __file__:
        report.longrepr = (str(item.path), 1, report.longrepr[2].removeprefix("Skipped: "))
    return _skip_if_missing(report, item.path)
