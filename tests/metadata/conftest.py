"""Fixtures of other folders for the metadata tests."""

from __future__ import annotations

from compat_tests.fixtures import java_tools  # noqa: F401  (pytest finds them by import)
