"""Fixtures of the Spark tests: the broker under test, a topic of orders in it, and one Spark session for all.

The programs are scripts that import each other by bare names; so do the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.fixtures import (  # noqa: F401  (fixtures are found by being here)
    UNDER_TEST,
    java_tools,
    new_broker,
    requests_noted,
    target,
    unique,
)
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka
from compat_tests.watcher import Watcher

sys.path.append(str(Path(__file__).resolve().parents[1]))

from session import spark_session

from spark_examples.tests.connect_server import ConnectServer
from spark_examples.tests.programs import ORDERS, run_here, run_program
from spark_examples.tests.quick_jvm import QUICK_SPARK

#: Several JVMs start in one test; programs.py has the deadlines of its waits.
TIMEOUT_S = 2_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def watcher(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:  # noqa: F811
    """The broker under test, only for these tests, with a proxy that notes Spark's requests."""
    kind: type[BrokerProcess] = ApacheKafka if target == "apache" else OdradekProcess
    with Watcher() as watched:
        properties = {**UNDER_TEST, "advertised.listeners": f"PLAINTEXT://{watched.address}"}
        if kind is OdradekProcess:
            properties["listeners"] = f"PLAINTEXT://127.0.0.1:{free_port()}"
        with kind(tmp_path_factory.mktemp("broker"), properties) as broker:
            watched.target = broker.bootstrap
            yield watched


@pytest.fixture(scope="session")
def bootstrap(watcher: Watcher) -> str:
    """The bootstrap address for Spark."""
    return watcher.address


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the catalog `odradek` in the session of the tests."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    """A Spark session for tests that need no separate process."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICK_SPARK.items():
            environment.setenv(name, value)
        # Where Spark finds `pyspark_odradek`; an editable installation is not in the list of modules that it searches.
        environment.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
        session = spark_session("spark-examples-tests", warehouse)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A server of Spark Connect."""
    with ConnectServer(tmp_path_factory.mktemp("connect")) as started:
        yield started


@pytest.fixture
def run_in_session(spark: SparkSession) -> Callable[..., str]:
    """Runs a program in the session of the tests, which `spark_session` finds active."""
    return run_here


@pytest.fixture(scope="session")
def orders_topic(bootstrap: str) -> str:
    """A topic with the first ORDERS events of the seed; no test adds to it."""
    run_program("generate_orders.py", "--bootstrap", bootstrap, "--events", str(ORDERS))
    return "order-events"
