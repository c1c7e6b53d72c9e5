"""Prometheus metrics over HTTP: `GET /metrics` on odradek.metrics.host and odradek.metrics.port. Off unless a port is set.

A request is answered on the broker's loop from what is there in that moment; only writing the answer as text, which takes
longest where there are many partitions, is left to a thread. One request a connection; what is not a small GET is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from .metrics_families import families

if TYPE_CHECKING:
    from .broker import BrokerServer

log = logging.getLogger("odradek.metrics")

#: A scraper's request line and headers; what is longer is no scraper's.
_MOST_REQUEST_BYTES = 16 * 1024
#: A peer that has not said what it wants by then is cut off.
_REQUEST_DEADLINE_S = 10


class MetricsServer:
    """Serves one broker's metrics from `start` to `stop`."""

    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._server: asyncio.Server | None = None
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; the port that was found when it was to be any."""
        assert self._server is not None, "metrics are not served yet"
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        """Raises OSError when the address cannot be had."""
        host = self._broker.config.get("odradek.metrics.host")
        port = self._broker.config.get("odradek.metrics.port")
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_MOST_REQUEST_BYTES)
        except OSError as error:
            raise OSError(error.errno, f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from None
        log.info("metrics are served on http://%s:%s/metrics", *self.address)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_DEADLINE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(request.decode("latin-1")))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            log.debug("a request for metrics failed: %s", error)
        finally:
            writer.close()

    async def _answer(self, request: str) -> bytes:
        line, *headers = request.split("\r\n")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "text/plain", b"only GET\n")
        if path != "/metrics":
            return _response("404 Not Found", "text/plain", b"metrics are at /metrics\n")
        accepted = next((h.partition(":")[2].strip() for h in headers if h.lower().startswith("accept:")), "")
        encode, content_type = choose_encoder(accepted)
        found = _Found([*families(self._broker), *self._process.collect()])
        text: bytes = await asyncio.to_thread(encode, found)
        return _response("200 OK", content_type, text if method == "GET" else b"")


class _Found:
    """What was collected already, for an encoder that would collect."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        return iter(self._found)


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
