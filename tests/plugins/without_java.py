"""Leaves out the tests that compare with Java, which are the same on every Python. Loaded by `python -m tests.pythons`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if "java_tools" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if "java_tools" not in getattr(item, "fixturenames", ())]
