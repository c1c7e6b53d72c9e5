"""The log of slow requests: `odradek.slow.request.ms` and longer.

It has at most `MOST_LINES` lines in `LOG_INTERVAL_S`; the requests between are counted.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from ...client.shown_text import shown

if TYPE_CHECKING:
    from ...protocol.apis import Api


log = logging.getLogger("odradek.slow")

MOST_LINES = 10
LOG_INTERVAL_S = 10.0
NS_IN_MS = 1_000_000


class TimedRequest(Protocol):
    """A call as the log shows it."""

    api: Api
    connection: Any
    version: int
    client_id: str | None
    size: int

    @property
    def principal(self) -> str: ...


class WantedWait(Protocol):
    """How long the client of a call lets it wait, and the bytes of its request."""

    wanted_wait_ns: int
    request_bytes: int


class SlowRequests:
    """The log of slow requests of one node. `limit_ms`: a call that takes as long is slow."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ns = limit_ms * NS_IN_MS
        self._interval_began_ns = 0
        self._lines = 0
        self._unlogged = 0
        self.count = 0

    def ended(self, call: TimedRequest, wait: WantedWait, handled_ns: int, waited_ns: int, answered_ns: int) -> None:
        """Logs the call if it was slow."""
        if handled_ns + waited_ns + answered_ns < self._limit_ns:
            return
        if handled_ns + answered_ns + max(0, waited_ns - wait.wanted_wait_ns) < self._limit_ns:
            return
        self.count += 1
        now_ns = perf_counter_ns()
        if now_ns - self._interval_began_ns >= LOG_INTERVAL_S * 1e9:
            self._interval_began_ns, self._lines = now_ns, 0
        if self._lines >= MOST_LINES:
            self._unlogged += 1
            return
        self._lines += 1
        self._log(call, wait.request_bytes, handled_ns, waited_ns, answered_ns)

    def _log(self, call: TimedRequest, request_bytes: int, handled_ns: int, waited_ns: int, answered_ns: int) -> None:
        parts = {"handled": handled_ns, "waited": waited_ns, "answered": answered_ns}
        fields = {
            "api": call.api.name,
            "version": call.version,
            "client_id": shown(call.client_id),
            "client": call.connection.remote_address,
            "principal": shown(call.principal),
            "request_bytes": request_bytes,
            "response_bytes": call.size,
            "total_ms": round(sum(parts.values()) / NS_IN_MS, 1),
            **{f"{name}_ms": round(ns / NS_IN_MS, 1) for name, ns in parts.items()},
            "unlogged": self._unlogged,
        }
        self._unlogged = 0
        log.warning(
            "%(api)s v%(version)s of client %(client_id)s at %(client)s took %(total_ms)s ms: handled %(handled_ms)s ms, "
            "waited %(waited_ms)s ms, answered %(answered_ms)s ms; request %(request_bytes)s bytes, response "
            "%(response_bytes)s bytes (%(unlogged)s more slow requests since the last line)",
            fields,
            extra={"fields": fields},
        )
