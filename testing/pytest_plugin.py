"""Fixtures for people who test their own applications against a real broker. They come with the package.

Each gives an `odradek.Broker` or an `odradek.Cluster`, or a part of one, on a thread of its own: clients take its
`bootstrap_servers`. Synchronous tests and tests that are coroutines may use all of them. With pytest-xdist each worker has
brokers of its own. The report of a failing test shows topics, groups, faults and the last requests of its brokers.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from .report import sections

if TYPE_CHECKING:
    from pathlib import Path

    from ..server.access.provisioning import Security
    from .broker import Broker
    from .cluster import Cluster
    from .faults.faults import Faults
    from .registry.server import SchemaRegistry
    from .topics_seen import TopicView

#: A topic's name has at most 249 characters.
_MOST_NAME = 200

_SHOWN = ("odradek_session", "odradek_broker", "odradek_cluster_session", "odradek_cluster")


@pytest.fixture(scope="session")
def odradek_config() -> Mapping[str, str | int | float | bool]:
    """Kafka's broker properties for the session's broker and cluster: override it in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def odradek_security() -> str | Security | None:
    """How clients of the session's broker and cluster connect, as odradek.Broker(security=) takes it: override it, too."""
    return None


@pytest.fixture(scope="session")
def odradek_session(
    odradek_config: Mapping[str, str | int | float | bool], odradek_security: str | Security | None
) -> Iterator[Broker]:
    """An odradek.Broker for the whole test run, started when the first test asks for it. Tests share its topics."""
    from .broker import Broker

    with Broker(config=odradek_config, security=odradek_security) as broker:
        broker.requests  # noqa: B018  (from now on they are noted)
        yield broker


@pytest.fixture
def odradek_broker(odradek_session: Broker) -> Broker:
    """The session's odradek.Broker as if new: earlier tests' topics, groups, faults and time are gone, in milliseconds."""
    odradek_session.reset()
    return odradek_session


@pytest.fixture(scope="session")
def odradek_schema_registry_session() -> Iterator[SchemaRegistry]:
    """A schema registry for the whole test run, for serialisers of Avro, JSON Schema and Protobuf. Tests share it."""
    from .registry.server import SchemaRegistry

    registry = SchemaRegistry()
    yield registry
    registry.close()


@pytest.fixture
def odradek_schema_registry(odradek_schema_registry_session: SchemaRegistry) -> SchemaRegistry:
    """A schema registry without subjects, at its `.url`: `SchemaRegistryClient({"url": odradek_schema_registry.url})`."""
    odradek_schema_registry_session.clear()
    return odradek_schema_registry_session


@pytest.fixture
def odradek_faults(odradek_broker: Broker) -> Iterator[Faults]:
    """The faults of odradek_broker: `odradek_faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)`."""
    yield odradek_broker.faults
    odradek_broker.faults.clear()


@pytest.fixture
def odradek_topic(odradek_broker: Broker, request: pytest.FixtureRequest) -> TopicView:
    """A topic of odradek_broker with one partition, named after the test: `.name`, `.records()`, `.wait_for(records=3)`."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-.")[:_MOST_NAME]
    return odradek_broker.topic(name or "topic").create().result


@pytest.fixture(scope="session")
def odradek_cluster_session(
    odradek_config: Mapping[str, str | int | float | bool], odradek_security: str | Security | None
) -> Iterator[Cluster]:
    """An odradek.Cluster of three brokers for the whole test run. Tests share its topics."""
    from .cluster import Cluster

    with Cluster(brokers=3, config=odradek_config, security=odradek_security) as cluster:
        cluster.requests  # noqa: B018
        yield cluster


@pytest.fixture
def odradek_cluster(odradek_cluster_session: Cluster) -> Cluster:
    """The session's odradek.Cluster of three brokers as if new; brokers that an earlier test killed run again."""
    odradek_cluster_session.reset()
    return odradek_cluster_session


class NewBroker(Protocol):
    """The function of `odradek_new_broker`; its arguments are those of `odradek.Broker`."""

    def __call__(
        self,
        *,
        host: str = ...,
        port: int = ...,
        data_dir: str | Path | None = ...,
        config: Mapping[str, str | int | float | bool] | None = ...,
        security: str | Security | None = ...,
        schema_registry: bool = ...,
    ) -> Broker: ...


@pytest.fixture
def odradek_new_broker() -> Iterator[NewBroker]:
    """A function that starts a further odradek.Broker: `odradek_new_broker(config={...})`. It stops after the test."""
    from .broker import Broker

    with ExitStack() as running:

        def start(**arguments: Any) -> Broker:
            return running.enter_context(Broker(**arguments))

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the brokers of a failing test hold and were asked."""
    report = yield
    if report.when == "call" and report.failed:
        used = {id(one): one for name, one in getattr(item, "funcargs", {}).items() if name in _SHOWN}
        for embedded in used.values():
            with suppress(Exception):  # a broker that the test has stopped has nothing to show
                report.sections += sections(embedded)
    return report
