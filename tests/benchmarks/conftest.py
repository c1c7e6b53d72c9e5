"""The tools that the tests of benchmarks need."""

from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
