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
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from ..config.listeners import CannotListen
from ..network.acceptor import Acceptor
from ..network.bound_sockets import bound_sockets
from ..network.descriptors import DESCRIPTORS
from ..runtime.sliced_work import in_slices
from ..runtime.subsystem import Subsystem
from ..services import Services
from .families import families
from .group_lag import group_lag
from .health import body, not_ready
from .local_records_ends import LocalRecordsEnds
from .pipeline_families import pipelines

if TYPE_CHECKING:
    from ..runtime.node import Node
    from ..services import NodeServices

log = logging.getLogger("odradek.metrics")

METRICS = "/metrics"
LIVE = "/health/live"
READY = "/health/ready"

#: Scrapers that wait to be accepted.
_BACKLOG = 128
#: Limit of a scraper's request line and headers; no scraper sends more.
_MOST_REQUEST_BYTES = 16 * 1024
#: A peer that has not said what it wants by then is cut off.
_REQUEST_DEADLINE_S = 10


class ObservabilitySubsystem(Subsystem):
    """Serves health from its start to its stop, and metrics while the node's subsystems are there."""

    name = "observability"

    def __init__(self, node: Node) -> None:
        #: The source of the metrics; None while the node's subsystems start or stop.
        self.services: NodeServices | None = None
        #: Set by the node when it begins to stop: it is not ready from then on.
        self.is_stopping = False
        self._config = node.config
        self._lines = node.lines
        self._pools = node.pools
        self._local_records_ends = LocalRecordsEnds(node.pools.disk)
        self._acceptors: list[Acceptor] = []
        self._address = ("", 0)
        #: Connections that are open, the oldest first.
        self._connections: dict[_MetricsConnection, None] = {}
        self._scrapes = 0
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
        assert port is not None, "a node without the port has no metrics over HTTP"
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
        """Returns a new connection's protocol. With too many open, ends the oldest that is idle, or returns None."""
        if len(self._connections) >= max(1, DESCRIPTORS.shares.metrics):
            oldest = next((one for one in self._connections if one.is_idle), None)
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
                connection.is_idle = False
                await self._respond_on(writer, request.decode("latin-1"))
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            log.debug("a request for metrics failed: %s", error)
            connection.abort()
        connection.is_idle = True  # its reader may leave the last bytes of the response unread
        asyncio.get_running_loop().call_later(_REQUEST_DEADLINE_S, connection.abort)

    async def _respond_on(self, writer: asyncio.StreamWriter, request: str) -> None:
        """Sends the response. Half of the connections may have metrics: slow readers leave the others for health."""
        line, *headers = request.split("\r\n")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        is_scrape = path == METRICS
        if is_scrape and self._scrapes >= max(1, DESCRIPTORS.shares.metrics // 2):
            writer.write(_response("503 Service Unavailable", "text/plain", b"too many scrapes at once\n"))
            writer.close()
            return
        self._scrapes += is_scrape
        try:
            writer.write(await self._respond(method, path, headers))
            await writer.drain()
            writer.close()
        finally:
            self._scrapes -= is_scrape

    async def _respond(self, method: str, path: str, headers: list[str]) -> bytes:
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
        if path != METRICS:
            words = f"metrics are at /metrics, health at {LIVE} and {READY}\n"
            return _Response("404 Not Found", "text/plain", words.encode())
        if self.services is None:
            state = b"stopping" if self.is_stopping else b"starting"
            return _Response("503 Service Unavailable", "text/plain", b"the node is %b\n" % state)
        return await self._metrics(self.services, headers)

    async def _metrics(self, services: NodeServices, headers: list[str]) -> _Response:
        accepted = next((h.partition(":")[2].strip() for h in headers if h.lower().startswith("accept:")), "")
        encode, content_type = choose_encoder(accepted)
        of_groups: list[Metric] = []
        if isinstance(services, Services):
            of_groups = await group_lag(services, self._local_records_ends)
            of_groups += await in_slices(pipelines(services))
        found = _Found([*families(services), *of_groups, *self._process.collect()])
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
        #: Whether its request has not come, or the response is sent.
        self.is_idle = True

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

    def __init__(self, metrics: list[Metric]) -> None:
        self._found = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._found)


def _reason(error: OSError) -> str:
    return "it is in use" if error.errno == errno.EADDRINUSE else str(error.strerror or error)


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
