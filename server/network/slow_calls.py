"""The log of slow requests.

With `odradek.slow.request.ms` every call is timed, otherwise none of this runs.

The time of a call has three parts: handled (from its creation until the handler has returned or answered), waited (until
the response is there: for replicas, for records, for a coordinator or a controller) and answered (encoding the response
and handing it to the socket). A wait that the client asked for does not count: `max_wait_ms` of a Fetch, the rebalance of
a group.

The log has at most `MOST_LINES` lines in `LOG_INTERVAL_S`; the requests between are counted.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING

from ...client.shown_text import shown
from .call import Observer
from .no_request import NO_REQUEST

if TYPE_CHECKING:
    from ...protocol.schema import Message, Request
    from .call import Call, CallRoute
    from .file_sender import Piece

log = logging.getLogger("odradek.slow")

MOST_LINES = 10
LOG_INTERVAL_S = 10.0
NS_IN_MS = 1_000_000


class SlowLog(Observer):
    """Notes when a call was created, parked and answered, and logs it if it is slow."""

    __slots__ = (
        "_created_ns",
        "_early_request",
        "_parked_ns",
        "_replied_ns",
        "_requests",
        "request_bytes",
        "wanted_wait_ns",
    )

    def __init__(self, call: Call, requests: SlowRequests) -> None:
        self._requests = requests
        self._created_ns = perf_counter_ns()
        #: 0 until then.
        self._parked_ns = self._replied_ns = 0
        self.request_bytes = call.connection.dispatcher.frame_bytes
        self.wanted_wait_ns = _wanted_wait_ns(call.route, call.request)
        #: The first request of an API, whose endpoint is not imported yet: handlers of parked calls let go of requests.
        self._early_request = None if call.route.is_served else call.request

    def parked(self, call: Call) -> None:
        if not self._parked_ns:
            self._parked_ns = perf_counter_ns()
            if call.request is not NO_REQUEST:  # one of many items is decoded after the call was made
                self.wanted_wait_ns = _wanted_wait_ns(call.route, call.request)

    def replying(self, call: Call, response: Message | None) -> bool:
        self._replied_ns = self._replied_ns or perf_counter_ns()
        return True

    def finishing(self, call: Call, pieces: list[Piece]) -> bool:
        self._replied_ns = self._replied_ns or perf_counter_ns()
        return True

    def replied(self, call: Call) -> None:
        if self._early_request is not None:
            self.wanted_wait_ns = _wanted_wait_ns(call.route, self._early_request)
        parked_ns = min(self._parked_ns or self._replied_ns, self._replied_ns)
        answered_ns = perf_counter_ns() - self._replied_ns
        self._requests.ended(call, self, parked_ns - self._created_ns, self._replied_ns - parked_ns, answered_ns)


def _wanted_wait_ns(route: CallRoute, request: Request) -> int:
    """Returns how long the client of a request lets it wait."""
    wanted_wait_ms = route.endpoint.wanted_wait_ms
    return 0 if wanted_wait_ms is None or request is NO_REQUEST else wanted_wait_ms(request) * NS_IN_MS


class SlowRequests:
    """The log of slow requests of one node. `limit_ms`: a call that takes as long is slow."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ns = limit_ms * NS_IN_MS
        self._interval_began_ns = 0
        self._lines = 0
        self._unlogged = 0
        self.count = 0

    def ended(self, call: Call, wait: SlowLog, handled_ns: int, waited_ns: int, answered_ns: int) -> None:
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

    def _log(self, call: Call, request_bytes: int, handled_ns: int, waited_ns: int, answered_ns: int) -> None:
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
