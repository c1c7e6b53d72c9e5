"""Calls of which the slow ones are logged: with `odradek.slow.request.ms` every call is timed, otherwise none of this runs.

The time of a call has three parts: handled (from its creation until the handler has returned or answered), waited (until
the answer is there: for replicas, for records, for a coordinator or a controller) and answered (encoding the response and
handing it to the socket). A wait that the client asked for does not count: `max_wait_ms` of a Fetch, the rebalance of a
group. The log has at most `MOST_LINES` lines in `LOG_INTERVAL_S`; the calls between are counted.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.schema import Message
from ..runtime.peer_text import shown
from .call import Call, ClientConnection, TimedCall
from .metered_call import TimedMeteredCall

if TYPE_CHECKING:
    from .route import Route

log = logging.getLogger("odradek.slow")

MOST_LINES = 10
LOG_INTERVAL_S = 10.0
_NS_IN_MS = 1_000_000
#: The field of a request that says how long its client lets it wait.
_WAITS = {"Fetch": "max_wait_ms", "ShareFetch": "max_wait_ms", "JoinGroup": "rebalance_timeout_ms"}
#: A SyncGroup waits for the leader of its group, as long as that takes.
_WAITS_FOR_MEMBERS = "SyncGroup"
_ANY_TIME = 1 << 63


class SlowRequests:
    """The log of slow requests of one node. `limit_ms`: a call that takes as long is slow."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ns = limit_ms * _NS_IN_MS
        self._interval_began_ns = 0
        self._lines = 0
        self._unlogged = 0
        self.count = 0

    def ended(self, call: _Watched, handled_ns: int, waited_ns: int, answered_ns: int) -> None:
        """Logs the call if it was slow."""
        if handled_ns + waited_ns + answered_ns < self._limit_ns:
            return
        if handled_ns + answered_ns + max(0, waited_ns - call.wanted_wait_ns) < self._limit_ns:
            return
        self.count += 1
        now_ns = perf_counter_ns()
        if now_ns - self._interval_began_ns >= LOG_INTERVAL_S * 1e9:
            self._interval_began_ns, self._lines = now_ns, 0
        if self._lines >= MOST_LINES:
            self._unlogged += 1
            return
        self._lines += 1
        self._log(call, handled_ns, waited_ns, answered_ns)

    def _log(self, call: _Watched, handled_ns: int, waited_ns: int, answered_ns: int) -> None:
        parts = {"handled": handled_ns, "waited": waited_ns, "answered": answered_ns}
        fields = {
            "api": call.api.name,
            "version": call.version,
            "client_id": shown(call.client_id),
            "client": call.connection.remote_address,
            "principal": shown(call.principal),
            "request_bytes": call.request_bytes,
            "response_bytes": call.size,
            "total_ms": round(sum(parts.values()) / _NS_IN_MS, 1),
            **{f"{name}_ms": round(ns / _NS_IN_MS, 1) for name, ns in parts.items()},
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


def _wanted_wait_ns(name: str, request: Any) -> int:
    """How long the client of a request lets it wait."""
    if name == _WAITS_FOR_MEMBERS:
        return _ANY_TIME
    field = _WAITS.get(name)
    return getattr(request, field, 0) * _NS_IN_MS if field is not None else 0


class _Watched(Call):
    """The part of a call that notes when it was created, parked and answered. Without slots: two kinds of calls have it."""

    created_ns: int
    #: 0 until then.
    parked_ns: int
    replied_ns: int
    request_bytes: int
    wanted_wait_ns: int

    def __init__(
        self, connection: ClientConnection, route: Route, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        self.created_ns = perf_counter_ns()
        self.parked_ns = self.replied_ns = 0
        super().__init__(connection, route, correlation_id, client_id, request)
        self.request_bytes = connection.dispatcher.frame_bytes
        self.wanted_wait_ns = _wanted_wait_ns(route.api.name, request)

    def parked(self) -> None:
        if not self.parked_ns:
            self.parked_ns = perf_counter_ns()
            if self.request is not None:  # one of many items is decoded after the call was made
                self.wanted_wait_ns = _wanted_wait_ns(self.api.name, self.request)
        super().parked()

    def reply(self, response: Message) -> None:
        self._note_reply()
        super().reply(response)

    def finish(self, pieces: list[Any]) -> None:
        self._note_reply()
        super().finish(pieces)
        self._end()

    def reply_nothing(self) -> None:
        self._note_reply()
        super().reply_nothing()
        self._end()

    def _note_reply(self) -> None:
        self.replied_ns = self.replied_ns or perf_counter_ns()

    def _end(self) -> None:
        slow = self.connection.listener.shared.slow_requests
        if slow is not None:
            parked_ns = min(self.parked_ns or self.replied_ns, self.replied_ns)
            answered_ns = perf_counter_ns() - self.replied_ns
            slow.ended(self, parked_ns - self.created_ns, self.replied_ns - parked_ns, answered_ns)


class WatchedCall(_Watched, TimedCall):
    """A call that is logged if it is slow."""


class WatchedMeteredCall(_Watched, TimedMeteredCall):
    """The same for a call whose cost is recorded."""
