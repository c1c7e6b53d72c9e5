"""Apache Kafka's tools for tests of scans."""

from compat_tests.fixtures import java_tools, tools  # noqa: F401  (found by being here)
