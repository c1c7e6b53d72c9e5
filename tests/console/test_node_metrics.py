"""Metrics of nodes: one that sends nothing, nonsense, or a byte now and then is missing, and does not count as zero."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.client.user_errors import UserError
from odradek.console.backend import Backend
from odradek.console.cluster import node_metrics
from odradek.console.cluster.connect import ConnectCluster
from odradek.console.cluster.exchanges import exchanged
from odradek.console.cluster.model import TopicFacts, TopicRow
from odradek.console.cluster.node_metrics import NodeMetrics
from odradek.console.pages.clients import clients
from odradek.console.parts import Table, Text
from odradek.console.pipelines.tiers import read_tiers
from odradek.console.settings import Settings
from starlette.requests import Request

pytestmark = pytest.mark.usefixtures("sockets")

_OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
_LAG = (
    b'kafka_server_brokertopicmetrics_remotecopylagbytes{topic="deep"} 0\n'
    b'kafka_server_brokertopicmetrics_remotecopylagsegments{topic="deep"} 0\n'
    b"odradek_connections 3\n"
)
#: Longer than a node's time in these tests, and than the whole test.
_DRIPS = 2_000
_NODE_S = 0.5


@contextlib.contextmanager
def serving(respond: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that responds to each connection so, after the head of a request."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            respond(connection)

    def accept() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
    stopping.set()
    accepting.join()
    listener.close()


def dripping(before: bytes) -> Callable[[socket.socket], None]:
    def respond(connection: socket.socket) -> None:
        connection.sendall(before)
        pace = threading.Event()
        for _ in range(_DRIPS):
            connection.sendall(b"x")
            pace.wait(0.02)

    return respond


def sending(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_metrics, "_NODE_S", _NODE_S)


@pytest.mark.parametrize(
    ("respond", "words"),
    [
        (dripping(_OK), "did not come whole within 0.5 s"),
        (dripping(b"HTTP/1.1 200 OK\r\nX-Long: "), "did not come whole within 0.5 s"),
        (dripping(b"HTTP/1.1 500 Odd\r\nConnection: close\r\n\r\n"), "500"),
        (sending(b"no HTTP at all\r\n\r\n"), "no response of HTTP"),
        (sending(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nodradek_connections 3\n"), "bytes are missing"),
        (sending(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"), "404"),
        (sending(b""), "without response"),
    ],
    ids=["body", "head", "error", "nonsense", "cut", "status", "nothing"],
)
@pytest.mark.usefixtures("quick")
def test_node_without_whole_metrics_is_missing_with_the_reason(
    respond: Callable[[socket.socket], None], words: str
) -> None:
    with serving(respond) as odd, serving(sending(_OK + _LAG)) as good:
        began = time.monotonic()
        found = NodeMetrics([odd, good]).read()
        assert time.monotonic() - began < _DRIPS * 0.02 / 4
    assert list(found.missing) == [odd] and words in found.missing[odd], found.missing
    assert [one.name for one in found.samples[good]][-1] == "odradek_connections"


@pytest.mark.usefixtures("quick")
def test_all_nodes_have_one_time_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_metrics, "_ALL_S", 0.6)
    with serving(dripping(_OK)) as odd:
        began = time.monotonic()
        found = NodeMetrics([f"{odd}?{number}" for number in range(40)]).read()
        assert time.monotonic() - began < 40 * _NODE_S / 8
    assert len(found.missing) == 40


def test_long_metrics_are_missing_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_metrics, "_MOST_BYTES", len(_LAG) - 2)
    with serving(sending(_OK + _LAG)) as address:
        assert "longer" in NodeMetrics([address]).read().missing[address]


@pytest.mark.usefixtures("quick")
def test_lag_of_tiers_is_unknown_without_a_node() -> None:
    facts = TopicFacts(0, 0, None, None, "delete", None, is_tiered=True)
    rows = [TopicRow("deep", 1, 1, 0, 0, False, None, facts)]
    with odradek.Broker() as broker, serving(sending(_OK + _LAG)) as good, serving(sending(b"")) as silent:
        broker.topic("deep").send(b"x")
        connection = Connection({"bootstrap.servers": broker.bootstrap_servers})
        with connection.admin() as admin:
            (whole,) = read_tiers(admin, rows, frozenset(), NodeMetrics([good]))
            (part,) = read_tiers(admin, rows, frozenset(), NodeMetrics([good, silent]))
        assert (whole.state, whole.lag_bytes, whole.unknown) == ("copied", 0, "")
        assert (part.state, part.lag_bytes) == ("tiered", None) and silent in part.unknown
        backend = Backend(connection, Settings(metrics=(good, silent)))
        page = clients(backend, Request({"type": "http", "headers": [], "query_string": b""}))
        backend.links.close()
    assert any(isinstance(one, Text) and silent in one.text for one in page.parts)
    (table,) = [one for one in page.parts if isinstance(one, Table) and one.title == "Connections"]
    assert [row[0] for row in table.rows] == [good]


def test_connect_worker_that_drips_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.console.cluster.connect._TIMEOUT_S", 0.5)
    with serving(dripping(_OK)) as address, pytest.raises(UserError, match=r"did not come whole within 0\.5 s"):
        ConnectCluster(address).connectors()


def test_error_has_its_body() -> None:
    with serving(sending(b"HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{}")) as address:
        with pytest.raises(urllib.error.HTTPError) as caught:
            exchanged(urllib.request.Request(address), 5, 1 << 20)
        assert caught.value.code == 409 and caught.value.read() == b"{}"
