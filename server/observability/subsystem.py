"""Prometheus metrics and health over HTTP, as one subsystem. Made, and imported, only where odradek.metrics.port is set.

`GET /metrics`, `GET /health/live` and `GET /health/ready`. The port is bound with the listeners and
answers from then on: a node that recovers its logs is live, and answers that it is not ready. Metrics follow when
there are any.

The broker's loop makes the response from the state of that moment. A thread writes it as text, which takes longest
with many partitions. A connection has one request; any request but a small GET is refused. Few connections are open
at a time (network/descriptors.py): one more ends the oldest that has not sent its request yet, so that connections that
send nothing do not keep a scraper out.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from ...replication.quorum.roles import Follower, Leader
from ..config.listeners import CannotListen
from ..controller.broker_lifecycle import LifecycleState
from ..network.descriptors import DESCRIPTORS
from ..network.sockets import Acceptor, bound_sockets
from ..runtime.subsystem import Subsystem
from ..services import NodeServices, Services
from .families import families
from .group_families import group_lag

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.thread_pools import ThreadPools


# Health of a node for load balancers and supervisors: `/health/live` and `/health/ready`.
#
# Live: the event loop answers. A node that recovers its logs or waits for a quorum is live, and must not be
# restarted. Ready: the node serves, has a leader of the quorum, is registered and not fenced, and all its log
# directories are online. A condition that does not hold is named with its reason. Background work that fails, and is
# tried again, is named in "failing": the node serves meanwhile, so it stays ready.


LIVE = "/health/live"
READY = "/health/ready"
_LEAVING = (LifecycleState.PENDING_CONTROLLED_SHUTDOWN, LifecycleState.SHUTTING_DOWN)


class NotReady(NamedTuple):
    """A check that fails, and why."""

    check: str
    reason: str


def not_ready(config: BrokerConfig, services: NodeServices | None, *, is_stopping: bool) -> Iterator[NotReady]:
    """Yields the checks that fail now. `services`: None until the node has opened its log directories."""
    if is_stopping:
        yield NotReady("serving", "the node is stopping")
    if services is None:
        if not is_stopping:
            yield NotReady("serving", "the node is starting: it opens its log directories")
        return
    if not is_stopping:
        yield from _serving(services)
    yield from _quorum(services)
    yield from _registration(services)
    yield from _directories(config, services)


def _serving(services: NodeServices) -> Iterator[NotReady]:
    closed = [listener.name for listener in services.network.listeners if not listener.is_started]
    lifecycle = services.controller.lifecycle if isinstance(services, Services) else None
    if closed:
        yield NotReady("serving", f"the node is starting: listener {', '.join(closed)} does not accept connections yet")
    elif lifecycle is not None and lifecycle.state in _LEAVING:
        yield NotReady("serving", "the node is stopping")


def _quorum(services: NodeServices) -> Iterator[NotReady]:
    """A node that holds an election may still name the leader that it misses (KIP-996)."""
    raft = services.controller.driver.raft
    if raft is not None and not isinstance(raft.replica.role, (Leader, Follower)):
        yield NotReady("quorum", f"no leader of the quorum responds in epoch {services.controller.driver.epoch}")


def _registration(services: NodeServices) -> Iterator[NotReady]:
    if not isinstance(services, Services):  # a mere controller is no broker
        return
    registered = services.metadata.image.broker(services.node_id)
    if registered is None:
        yield NotReady("registration", "no controller has registered this broker")
    elif registered.fenced:
        yield NotReady("registration", "this broker is fenced")


def _directories(config: BrokerConfig, services: NodeServices) -> Iterator[NotReady]:
    online = {Path(directory.path).resolve() for directory in services.directories if directory.is_online}
    offline = [path for path in config.log_dirs if Path(path).resolve() not in online]
    if offline:
        yield NotReady("directories", f"log directory {', '.join(offline)} is offline")


def body(config: BrokerConfig, services: NodeServices | None, failed: list[NotReady]) -> bytes:
    """Returns the JSON response."""
    named = {one.check: one.reason for one in failed}
    found = {"ready": not failed, "node_id": config.node_id, "not_ready": named}
    text = json.dumps({**found, "failing": services.background.failing if services is not None else {}})
    return f"{text}\n".encode()


log = logging.getLogger("odradek.metrics")

#: Scrapers that wait to be accepted.
_BACKLOG = 128
#: Limit of a scraper's request line and headers; no scraper sends more.
_MOST_REQUEST_BYTES = 16 * 1024
#: A peer that has not said what it wants by then is cut off.
_REQUEST_DEADLINE_S = 10


class ObservabilitySubsystem(Subsystem):
    """Serves health from its start to its stop, and metrics while the node's subsystems are there."""

    name = "observability"

    def __init__(self, config: BrokerConfig, lines: RepeatedLines, pools: ThreadPools) -> None:
        #: The source of the metrics; None while the node's subsystems start or stop.
        self.services: NodeServices | None = None
        #: Set by the node when it begins to stop: it is not ready from then on.
        self.is_stopping = False
        self._config = config
        self._lines = lines
        self._pools = pools
        self._acceptors: list[Acceptor] = []
        self._address = ("", 0)
        #: Connections that are open, the oldest first.
        self._connections: dict[_MetricsConnection, None] = {}
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; the port that was found when it was to be any."""
        assert self._acceptors, "metrics are not served yet"
        return self._address

    async def start(self) -> None:
        """Raises OSError when the address cannot be had."""
        host = self._config.get("odradek.metrics.host")
        port = self._config.get("odradek.metrics.port")
        try:
            bound = bound_sockets(host, port)
            self._address = bound[0].getsockname()[:2]
            self._acceptors = [Acceptor(listening, self._decide, self._lost, self._nothing_left) for listening in bound]
            for acceptor in self._acceptors:
                acceptor.start(_BACKLOG)
        except OSError as error:
            words = f"cannot serve metrics on {host}:{port}: {_reason(error)}"
            raise CannotListen(error, words, "odradek.metrics.port") from None
        DESCRIPTORS.metrics_are_served()
        log.info("metrics are served on http://%s:%s/metrics", *self._address)

    async def stop(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
            await acceptor.wait_closed()
        for connection in list(self._connections):
            connection.abort()

    def _decide(self, accepted: socket.socket, address: object) -> asyncio.BaseProtocol | None:
        """Returns a new connection's protocol. With too many open, ends the oldest without a request, or returns None."""
        if len(self._connections) >= max(1, DESCRIPTORS.shares.metrics):
            oldest = next((one for one in self._connections if not one.has_asked), None)
            words = "rejecting connections for metrics: too many are open"
            self._lines.log(log, logging.WARNING, "", "metrics refused", words)
            if oldest is None:
                return None
            self._lost(oldest)
            oldest.abort()
        connection = _MetricsConnection(self._serve, self._lost)
        self._connections[connection] = None
        return connection

    def _lost(self, connection: _MetricsConnection) -> None:
        self._connections.pop(connection, None)

    def _nothing_left(self, error: OSError) -> None:
        words = f"cannot accept connections for metrics: {error.strerror}"
        self._lines.log(log, logging.WARNING, "", "metrics system", words)

    async def _serve(
        self, connection: _MetricsConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(_REQUEST_DEADLINE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                connection.has_asked = True
                writer.write(await self._respond(request.decode("latin-1")))
                await writer.drain()
                writer.close()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            log.debug("a request for metrics failed: %s", error)
            connection.abort()

    async def _respond(self, request: str) -> bytes:
        line, *headers = request.split("\r\n")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "text/plain", b"only GET\n")
        response = await self._page(path, headers)
        return _response(response.status, response.content_type, response.body if method == "GET" else b"")

    async def _page(self, path: str, headers: list[str]) -> _Response:
        if path == LIVE:
            return _Response("200 OK", "application/json", b'{"live": true}\n')
        if path == READY:
            failed = list(not_ready(self._config, self.services, is_stopping=self.is_stopping))
            status = "503 Service Unavailable" if failed else "200 OK"
            return _Response(status, "application/json", body(self._config, self.services, failed))
        if path != "/metrics":
            words = f"metrics are at /metrics, health at {LIVE} and {READY}\n"
            return _Response("404 Not Found", "text/plain", words.encode())
        if self.services is None:
            state = b"stopping" if self.is_stopping else b"starting"
            return _Response("503 Service Unavailable", "text/plain", b"the node is %b\n" % state)
        return await self._metrics(self.services, headers)

    async def _metrics(self, services: NodeServices, headers: list[str]) -> _Response:
        accepted = next((h.partition(":")[2].strip() for h in headers if h.lower().startswith("accept:")), "")
        encode, content_type = choose_encoder(accepted)
        lag = await group_lag(services) if isinstance(services, Services) else []
        found = _Found([*families(services), *lag, *self._process.collect()])
        text: bytes = await self._pools.cpu.run(encode, found)
        return _Response("200 OK", content_type, text)


class _MetricsConnection(asyncio.StreamReaderProtocol):
    """A scraper's connection. `serve` is run with it, its reader and its writer."""

    def __init__(
        self,
        serve: Callable[
            [_MetricsConnection, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[object, None, None]
        ],
        lost: Callable[[_MetricsConnection], None],
    ) -> None:
        super().__init__(asyncio.StreamReader(limit=_MOST_REQUEST_BYTES), lambda *both: serve(self, *both))
        self._on_lost = lost
        self._transport_made: asyncio.Transport | None = None
        self._is_aborted = False
        #: Whether its request has come.
        self.has_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport_made = cast(asyncio.Transport, transport)
        if self._is_aborted:
            self._transport_made.abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost(self)

    def abort(self) -> None:
        """Drops it, with what it has not read."""
        self._is_aborted = True
        if self._transport_made is not None:
            self._transport_made.abort()


class _Response(NamedTuple):
    """The response to a request: its status line, and its body."""

    status: str
    content_type: str
    body: bytes


class _Found:
    """A collector that returns metrics collected before."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        return iter(self._found)


def _reason(error: OSError) -> str:
    return "it is in use" if error.errno == errno.EADDRINUSE else str(error.strerror or error)


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
