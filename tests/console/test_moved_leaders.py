"""Searches of the console and scans go on while leaders move, after the same errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.errors import ResponseError
from odradek.client.transient_errors import COORDINATOR_MOVES, FETCH_TRANSIENT, LEADER_MOVES
from odradek.columns import FetchReader, ScanError, Split
from odradek.columns.cluster import Cluster
from odradek.columns.split_reader import ReadOptions
from odradek.console.cluster.log_reader import LogReader, Range
from odradek.protocol.errors import ErrorCode

pytestmark = pytest.mark.usefixtures("sockets")

_COUNT = 20
Between = Callable[[], object]


@pytest.fixture(scope="module")
def cluster() -> Iterator[odradek.Cluster]:
    with odradek.Cluster() as running:
        for topic in ("scanned", "searched"):
            running.topic(topic).create(1, replication_factor=3)
            running.topic(topic).send(*[b"%d" % number for number in range(_COUNT)])
        yield running


@pytest.fixture(autouse=True)
def without_faults(cluster: odradek.Cluster) -> Iterator[None]:
    yield
    cluster.faults.clear()


def scanned(client: Mapping[str, str], topic: str, between: Between) -> list[int]:
    """Offsets by a scan whose connection has known the leader before `between`."""
    with Cluster(client) as connection:
        split = Split(topic, 0, 0, _COUNT, None, aborted=(), client=dict(client))

        def read() -> list[int]:
            reader = FetchReader(split, ReadOptions(["offset"]), connection)
            return [offset for batch in reader for offset in batch.column(0).to_pylist()]

        assert read() == list(range(_COUNT))
        between()
        return read()


def searched(client: Mapping[str, str], topic: str, between: Between) -> list[int]:
    """Offsets by a search that has described the topic before `between`."""
    with Connection(client).admin() as admin:
        reader = LogReader(admin, topic, 30.0)
        between()
        batches = reader.batches({(topic, 0): Range(0, _COUNT, 0, _COUNT)})
        return [record.offset() for batch in batches for record in batch.records]


READERS = {"scanned": scanned, "searched": searched}


@pytest.mark.parametrize("topic", READERS)
def test_reader_goes_to_the_new_leader(cluster: odradek.Cluster, topic: str) -> None:
    old = cluster.leader(topic)
    new = next(node_id for node_id in (1, 2, 3) if node_id != old)
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    assert READERS[topic](client, topic, lambda: cluster.move_leader(topic, to=new)) == list(range(_COUNT))
    assert cluster.leader(topic) == new


@pytest.mark.parametrize("topic", READERS)
@pytest.mark.parametrize("code", sorted(FETCH_TRANSIENT), ids=lambda code: code.name)
def test_reader_goes_on_after_each_transient_error(cluster: odradek.Cluster, code: ErrorCode, topic: str) -> None:
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    fault = None

    def fail() -> None:
        nonlocal fault
        fault = cluster.faults.fail("Fetch", code, times=2)

    assert READERS[topic](client, topic, fail) == list(range(_COUNT))
    assert fault is not None
    fault.wait(2)


@pytest.mark.parametrize("topic", READERS)
def test_reader_ends_with_an_error_that_does_not_pass(cluster: odradek.Cluster, topic: str) -> None:
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    with pytest.raises((ResponseError, ScanError), match="TOPIC_AUTHORIZATION_FAILED"):
        READERS[topic](
            client, topic, lambda: cluster.faults.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
        )


def test_apache_kafka_calls_each_transient_error_retriable() -> None:
    assert all(code.retriable for code in FETCH_TRANSIENT | LEADER_MOVES | COORDINATOR_MOVES)
