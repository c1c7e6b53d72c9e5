"""The fixtures and the choice of the broker under test; see fixtures.py."""

from __future__ import annotations

import pytest

from compat_tests.fixtures import (  # noqa: F401  (fixtures are found by being here)
    apache_kafka,
    bootstrap,
    broker,
    group,
    java_tools,
    new_broker,
    odradek,
    target,
    tools,
    topic,
    unique,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=("odradek", "apache"),
        default="odradek",
        help="which broker the compatibility tests run against (apache: Apache Kafka 4.3.1, to check the tests)",
    )
