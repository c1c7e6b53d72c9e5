"""Deprecated calls in the package fail tests; those of other packages do not (`filterwarnings` in pyproject.toml)."""

from __future__ import annotations

import warnings

import pytest


@pytest.mark.parametrize("category", [DeprecationWarning, PendingDeprecationWarning])
def test_deprecated_call_fails_in_a_module_of_the_package_only(category: type[Warning]) -> None:
    with pytest.raises(category):
        warnings.warn_explicit("goes soon", category, "broker.py", 1, module="odradek.server.broker")
    with warnings.catch_warnings(record=True):
        warnings.warn_explicit("goes soon", category, "other.py", 1, module="starlette.routing")
