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

from .inspection import lags, leaders, shard_states

if TYPE_CHECKING:
    from pathlib import Path

    from ..server.access.provisioning import Security
    from .broker import Broker
    from .broker_run import EmbeddedRun
    from .cluster import Cluster
    from .embedded import Embedded
    from .faults.faults import Faults
    from .inspection import TopicView
    from .registry.server import SchemaRegistry

#: A topic's name has at most 249 characters.
_MOST_NAME = 200


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


_SHOWN = ("odradek_session", "odradek_broker", "odradek_cluster_session", "odradek_cluster")


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


# ---- report

#: Lines of one section.
MOST_LINES = 30


def sections(embedded: Embedded) -> list[tuple[str, str]]:
    """Returns titles and texts; empty ones are left out."""
    run = embedded._here()
    found = [
        ("topics", embedded._look(lambda: _topics(run))),
        ("groups", embedded._look(lambda: _groups(run))),
        ("faults", [f"{fault}; struck {fault.count}" for fault in embedded.faults]),
        ("last requests", embedded.requests.lines(MOST_LINES)),
    ]
    return [(f"odradek {title}", "\n".join(_cut(lines))) for title, lines in found if lines]


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more"]


def _topics(run: EmbeddedRun) -> list[str]:
    names = {topic.name for server in run.servers.values() for topic in server.metadata.image.topics.by_id.values()}
    lines = []
    for name in sorted(names):
        parts = [f"{one.index}: {one.log.log_start_offset}..{one.role.high_watermark}" for one in leaders(run, name)]
        lines.append(f"{name}  {', '.join(parts[:MOST_LINES])}")
    return [line for line in lines if not line.startswith("__")]


def _groups(run: EmbeddedRun) -> list[str]:
    lines = []
    for one in shard_states(run):
        for group_id, group in one.groups.items():
            members, waiting = getattr(group, "members", ()), lags(run, group_id)
            shown = ", ".join(f"{topic}-{index}: {lag}" for (topic, index), lag in waiting.items())
            lines.append(f"{group_id}  {group.state.value}, {len(members)} members, lag {shown or 'unknown'}")
    return sorted(lines)
