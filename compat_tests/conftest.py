"""The fixtures, the choice of the broker under test (see fixtures.py), and the recorder of results (see results.py)."""

from __future__ import annotations

import pytest

from compat_tests import results
from compat_tests.fixtures import (  # noqa: F401  (fixtures are found by being here)
    apache_kafka,
    apache_watcher,
    bootstrap,
    broker,
    group,
    java_tools,
    new_broker,
    odradek,
    odradek_watcher,
    requests_noted,
    target,
    tools,
    topic,
    unique,
    watcher,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=("odradek", "apache"),
        default="odradek",
        help="which broker the compatibility tests run against (apache: Apache Kafka 4.3.1, to check the tests)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(results.Recorder(config), "compatibility-results")
