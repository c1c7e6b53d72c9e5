"""Fixtures of other folders for the coordinator tests."""

from __future__ import annotations

from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
