"""Fixtures of other folders that the tests of the coordinator use."""

from __future__ import annotations

from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
