"""Forwards what clients push to an OTLP collector over HTTP, from a thread of its own, with a bounded queue."""

from __future__ import annotations

import http.client
import logging
import ssl
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...metadata.configs import InvalidConfig
from ..runtime.thread_pools import ThreadPool

if TYPE_CHECKING:
    from ..runtime.log_lines import RepeatedLines

log = logging.getLogger("odradek.telemetry")
#: Pushes that wait for the collector, 2 MB each at most; further ones are dropped and counted.
MOST_QUEUED = 32
#: For the connection, and for each wait of the response.
TIMEOUT_S = 10.0
_PATH = "/v1/metrics"
_MOST_RESPONSE_BYTES = 64 * 1024


class Collector:
    """The collector at a URL. Raises InvalidConfig."""

    def __init__(self, url: str, lines: RepeatedLines) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(f"odradek.telemetry.otlp.endpoint is not an http or https URL: {parts.scheme}://…")
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path if parts.path not in ("", "/") else _PATH
        self._lines = lines
        self._pool = ThreadPool("telemetry", 1)
        self._waiting = 0
        self.sent = self.dropped = self.failed = 0

    def forward(self, body: bytes) -> None:
        """Sends a request, later. Failures are logged and counted."""
        if self._waiting >= MOST_QUEUED:
            self.dropped += 1
            return
        self._waiting += 1
        self._pool.run_then(partial(self._post, body), self._done)

    async def stop(self) -> None:
        await self._pool.stop()

    def _post(self, body: bytes) -> int:
        connection: http.client.HTTPConnection
        if self._is_tls:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_S, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/x-protobuf"})
            response = connection.getresponse()
            response.read(_MOST_RESPONSE_BYTES)
            return response.status
        finally:
            connection.close()

    def _done(self, outcome: int | BaseException) -> None:
        self._waiting -= 1
        if isinstance(outcome, int) and 200 <= outcome < 300:
            self.sent += 1
            return
        self.failed += 1
        words = f"answered {outcome}" if isinstance(outcome, int) else f"cannot be reached: {outcome!r}"
        self._lines.log(log, logging.WARNING, "", "otlp", f"the collector at {self._host} {words}")
