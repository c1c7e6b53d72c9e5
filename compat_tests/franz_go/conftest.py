"""Fixtures of the Go client's tests."""

from __future__ import annotations

from compat_tests.franz_go.harness.program import program  # noqa: F401  (pytest finds it by import)
