"""Fixtures of the codec's tests: Apache's jars, and its classes in a JVM."""

from __future__ import annotations

from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
