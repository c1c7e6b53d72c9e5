"""Reads of groups at their coordinators: one that does not respond costs its own groups alone, and gets one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.errors import NoResponse
from odradek.admin.group_offsets import commit
from odradek.admin.pipeline_progress import PipelineKind, PipelineProgress
from odradek.client.cluster import Cluster
from odradek.console.cluster.group_lags import behind
from odradek.console.cluster.group_reads import GroupReads
from odradek.console.cluster.history import History
from odradek.console.cluster.model import GroupRow, Snapshot
from odradek.console.cluster.node_metrics import NodeMetrics
from odradek.console.pipelines.pipeline import Kind
from odradek.console.pipelines.watch import PipelineWatch
from odradek.console.settings import Archives

pytestmark = pytest.mark.usefixtures("sockets")

_NODE, _DEAD = 1, 7
_NEAR, _FAR = "odradek-query-near", "odradek-query-far"


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        running.topic("orders").send(*[b"{}"] * 9)
        yield running


@pytest.fixture
def connection(broker: odradek.Broker) -> Connection:
    return Connection({"bootstrap.servers": broker.bootstrap_servers})


def node_of(connection: Connection, group: str) -> int:
    with connection.admin() as admin:
        return admin.coordinator(group)


def commit_progress(connection: Connection, group: str, offset: int) -> None:
    progress = PipelineProgress(PipelineKind.query, group, 1_772_600_000_000)
    with connection.admin() as admin:
        commit(admin, group, {("orders", 0): offset}, {("orders", 0): progress.text()})


def poller_of(coordinators: dict[str, int], away: set[int]) -> Any:
    rows = tuple(GroupRow(name, "classic", "Empty", None, coordinator=node) for name, node in coordinators.items())
    return SimpleNamespace(snapshot=Snapshot(at=1.0, groups=rows), away=frozenset(away), history=History())


def lags_of(watch: PipelineWatch) -> dict[str, int | None]:
    return {one.group: one.lag for one in watch.pipelines[Kind.query]}


def test_dead_coordinator_costs_the_progress_of_its_own_groups_alone(connection: Connection) -> None:
    for group in (_NEAR, _FAR):
        commit_progress(connection, group, 3)
    node = node_of(connection, _NEAR)
    poller = poller_of({_NEAR: node, _FAR: node}, set())
    watch = PipelineWatch(connection, poller, Archives(), (), NodeMetrics(()))
    watch._read()
    assert lags_of(watch) == {_NEAR: 6, _FAR: 6} and not watch.errors
    for group in (_NEAR, _FAR):
        commit_progress(connection, group, 8)
    away = poller_of({_NEAR: node, _FAR: _DEAD}, {_DEAD})
    poller.snapshot, poller.away = away.snapshot, away.away
    watch._read()
    assert lags_of(watch) == {_NEAR: 1, _FAR: 6}, "the other group is as it was"
    assert watch.errors == {
        Kind.query: f"broker {_DEAD}, which coordinates group {_FAR}, does not respond (as they were before: 1 group)"
    }
    poller.snapshot, poller.away = poller_of({_NEAR: node, _FAR: node}, set()).snapshot, frozenset()
    watch._read()
    assert lags_of(watch) == {_NEAR: 1, _FAR: 1} and not watch.errors


def test_coordinator_without_a_response_is_waited_for_once() -> None:
    asked: list[int] = []

    def step(node: int) -> str:
        asked.append(node)
        if node == _DEAD:
            raise NoResponse("no response from node 7")
        return "read"

    reads = GroupReads({"a": _DEAD, "b": _NODE, "c": _DEAD}, ())
    assert [reads.read(group, step) for group in "abcd"] == [None, "read", None, None]
    assert asked == [_DEAD, _NODE] and list(reads.unread) == ["a", "c", "d"]
    assert reads.trouble(lambda group: group == "b") == ""
    assert reads.trouble(lambda group: group != "a").endswith("(as they were before: 2 groups)")


def test_poll_takes_coordinators_from_the_list_of_groups(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"reader-{number}" for number in range(5)]
    for name in names:
        commit_progress(connection, name, 2)
    node = node_of(connection, names[0])
    asked: Counter[str] = Counter()
    ask = Cluster.ask

    def counted(self: Cluster, request: Any, *arguments: Any, **named: Any) -> Any:
        asked[type(request).__name__] += 1
        return ask(self, request, *arguments, **named)

    monkeypatch.setattr(Cluster, "ask", counted)
    with connection.admin() as admin:
        lags, taken = behind(admin, dict.fromkeys(names, "classic"), dict.fromkeys(names, node), frozenset())
    assert taken == 5 and {name: [one.lag for one in rows] for name, rows in lags.items()} == {
        name: [7] for name in names
    }
    assert asked["OffsetFetchRequest"] == 5 and not asked["FindCoordinatorRequest"], asked
