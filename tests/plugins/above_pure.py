"""Leaves out the tests of the tier `pure`, which ran before. Loaded by `python -m tests.pythons`."""

from __future__ import annotations

import pytest

#: Fixtures of the higher tiers (tests/conftest.py).
_HIGHER = {"sockets", "processes", "java_tools"}


def _is_pure(item: pytest.Item) -> bool:
    return _HIGHER.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if _is_pure(item)])
    items[:] = [item for item in items if not _is_pure(item)]
