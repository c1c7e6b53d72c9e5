"""A cluster of three nodes and Apache Kafka, each with a console, and Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.testing.registry.server import SchemaRegistry
from selenium import webdriver

from compat_tests.cli.commands import odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.console.browser import Browser, chromium
from compat_tests.console.harness.connect_worker import ConnectWorker, connect_worker
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.oracle import ApacheKafka


@pytest.fixture(scope="session")
def console_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="session")
def console_three(console_directory: Path) -> Iterator[str]:
    """The addresses of three nodes, with a topic and a group with lag."""
    with three_nodes(console_directory / "three") as bootstrap:
        odradek_command("topic", "create", "orders", "--partitions", "3", "--replicas", "3", "-b", bootstrap)
        lines = "\n".join(f'k{n}:{{"id": {n}, "total": {n * 3}, "password": "secret{n}"}}' for n in range(60))
        odradek_command("produce", "orders", "--create", "-K", ":", "-b", bootstrap, stdin=lines)
        consumed = odradek_command(
            "consume", "orders", "--from-beginning", "--count", "20", "--group", "billing", "-b", bootstrap
        )
        assert consumed.status == 0, consumed
        yield bootstrap


@pytest.fixture(scope="session")
def console_registry() -> Iterator[SchemaRegistry]:
    made = SchemaRegistry()
    yield made
    made.close()


@pytest.fixture(scope="session")
def console_connect() -> Iterator[ConnectWorker]:
    with connect_worker() as made:
        yield made


@pytest.fixture(scope="session")
def console(
    console_three: str, console_directory: Path, console_registry: SchemaRegistry, console_connect: ConnectWorker
) -> Iterator[ConsoleProcess]:
    options = ("--mask", "*password*", "--schema-registry", console_registry.url, "--connect", console_connect.url)
    made = ConsoleProcess(console_three, console_directory, *options)
    yield made
    made.stop()


#: The driver of the session, once a test has used it.
_STARTED: list[webdriver.Chrome] = []


@pytest.fixture(scope="session")
def driver() -> Iterator[webdriver.Chrome]:
    made = chromium()
    _STARTED.append(made)
    yield made
    _STARTED.clear()
    made.quit()


@pytest.fixture(autouse=True)
def no_page_beside(request: pytest.FixtureRequest) -> None:
    """Closes the page of an earlier test before one without a browser: it would draw its live figures meanwhile."""
    if "driver" not in request.fixturenames:
        for one in _STARTED:
            one.get("about:blank")


@pytest.fixture
def browser(driver: webdriver.Chrome, console: ConsoleProcess) -> Browser:
    made = Browser(driver, console.address)
    made.size(1200, 900)
    made.scheme("light")
    made.errors()  # discards those of the previous test
    return made


@pytest.fixture(scope="session")
def console_of_apache(apache_kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    made = ConsoleProcess(apache_kafka.bootstrap, tmp_path_factory.mktemp("console-of-apache"), "--mask", "*password*")
    yield made
    made.stop()


@pytest.fixture(params=["odradek", "apache"])
def visitor(request: pytest.FixtureRequest) -> Visitor:
    """Visits the console of either cluster."""
    chosen = "console" if request.param == "odradek" else "console_of_apache"
    made: ConsoleProcess = request.getfixturevalue(chosen)
    return Visitor(made.address)
