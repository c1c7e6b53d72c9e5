"""Fixtures that any test folder may import into its conftest: brokers as processes, and Apache's tools.

`bootstrap` is the address of the broker under test: Odradek, or Apache Kafka with `--target=apache`, which first shows that
every test holds for Kafka itself. Missing tools skip a test here and fail it in CI
(tests/plugins/run_report.py).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .broker_process import BrokerProcess, free_port
from .java.fetch import VERSIONS, is_complete
from .java.tool import ToolHost
from .needed_tools import missing, needed
from .odradek_process import OdradekProcess
from .oracle import SINGLE_NODE, ApacheKafka
from .watcher import Watcher

#: Properties of both brokers in these tests beyond SINGLE_NODE.
UNDER_TEST = {
    **SINGLE_NODE,
    # Foreign suites expect node id 0, and automatic topics with several partitions.
    "node.id": "0",
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    # Members of the new protocols learn of a rebalance by a heartbeat, and the broker sets its interval.
    **{
        f"group.{kind}.{least}heartbeat.interval.ms": milliseconds
        for kind in ("consumer", "share", "streams")
        for least, milliseconds in (("min.", "100"), ("", "200"))
    },
    "delete.topic.enable": "true",
}

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def java_tools() -> None:
    """Requires Java and the jars of every version."""
    needed("java")
    absent = [version for version in VERSIONS if not is_complete(version)]
    if absent:
        missing(f"Apache Kafka {', '.join(absent)}: run `python -m compat_tests.java.fetch` (needs Maven)")


@pytest.fixture(scope="session")
def apache_watcher() -> Iterator[Watcher]:
    """The proxy in front of `apache_kafka`."""
    with Watcher() as watcher:
        yield watcher


@pytest.fixture(scope="session")
def odradek_watcher() -> Iterator[Watcher]:
    """The proxy in front of `odradek`."""
    with Watcher() as watcher:
        yield watcher


@pytest.fixture(scope="session")
def apache_kafka(
    java_tools: None, apache_watcher: Watcher, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    """An Apache Kafka 4.3.1 for the whole run."""
    properties = {**UNDER_TEST, "advertised.listeners": f"PLAINTEXT://{apache_watcher.address}"}
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), properties) as broker:
        assert isinstance(broker, ApacheKafka)
        apache_watcher.target = broker.bootstrap
        yield broker


@pytest.fixture(scope="session")
def odradek(odradek_watcher: Watcher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    """An Odradek process for the whole run, configured like `apache_kafka`."""
    properties = {
        **UNDER_TEST,
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "advertised.listeners": f"PLAINTEXT://{odradek_watcher.address}",
    }
    with OdradekProcess(tmp_path_factory.mktemp("odradek"), properties) as broker:
        assert isinstance(broker, OdradekProcess)
        odradek_watcher.target = broker.bootstrap
        yield broker


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """The broker under test: "odradek" or "apache"."""
    chosen: str = request.config.getoption("--target", default="odradek")
    return chosen


@pytest.fixture(scope="session")
def broker(target: str, request: pytest.FixtureRequest) -> BrokerProcess:
    """The broker under test, shared by the run: a test leaves it running, and uses topics and groups of its own."""
    found: BrokerProcess = request.getfixturevalue("apache_kafka" if target == "apache" else "odradek")
    return found


@pytest.fixture(scope="session")
def watcher(broker: BrokerProcess, target: str, request: pytest.FixtureRequest) -> Watcher:
    """The proxy between clients and the broker under test, which notes their requests."""
    found: Watcher = request.getfixturevalue("apache_watcher" if target == "apache" else "odradek_watcher")
    return found


@pytest.fixture(autouse=True)
def requests_noted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Notes the requests of a test that reaches the broker through the proxy."""
    if "watcher" not in request.fixturenames:
        yield
        return
    watched = request.getfixturevalue("watcher")
    before = watched.snapshot()
    yield
    noted = sorted(watched.snapshot() - before)
    request.node.user_properties.append(("requests", noted))


@pytest.fixture(scope="session")
def bootstrap(watcher: Watcher) -> str:
    """The bootstrap address for clients."""
    return watcher.address


@pytest.fixture
def new_broker(
    target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[dict[str, str]], BrokerProcess]]:
    """A function that starts a further broker of the kind under test with its own properties."""
    running: list[BrokerProcess] = []
    if target == "apache":
        request.getfixturevalue("java_tools")

    def start(properties: dict[str, str]) -> BrokerProcess:
        kind = ApacheKafka if target == "apache" else OdradekProcess
        made = kind(tmp_path / f"broker-{len(running)}", {**UNDER_TEST, **properties})
        running.append(made)
        return made.start()

    yield start
    for one in running:
        one.kill()


@pytest.fixture(scope="session")
def tools(java_tools: None) -> Iterator[ToolHost]:
    """Apache's tools, in one JVM."""
    with ToolHost() as host:
        yield host


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A function that makes unique names for topics and groups."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:60].strip("-")
    return lambda prefix: f"{prefix}-{next(_numbers)}-{test}"


@pytest.fixture
def topic(unique: Callable[[str], str]) -> str:
    return unique("topic")


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("group")
