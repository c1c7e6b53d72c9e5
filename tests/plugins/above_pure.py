"""Leaves out the tests of the tier `pure`, which ran before. Loaded by `python -m tests.pythons`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests.harness.tiers import PURE, tier_of  # the root is on the path when tests are collected

    config.hook.pytest_deselected(items=[item for item in items if tier_of(item) == PURE])
    items[:] = [item for item in items if tier_of(item) != PURE]
