"""Calls of which the slow ones are logged: with `odradek.slow.request.ms` every call is timed, otherwise none of this runs.

The time of a call has three parts: handled (from its creation until the handler has returned or answered), waited (until
the response is there: for replicas, for records, for a coordinator or a controller) and answered (encoding the response and
handing it to the socket). A wait that the client asked for does not count: `max_wait_ms` of a Fetch, the rebalance of a
group.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from ...protocol.schema import Message
from ..runtime.slow_requests import NS_IN_MS
from .call import Call, Observer, Route

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from .file_sender import Piece


def _wanted_wait_ns(route: Route, request: Message | None) -> int:
    """Returns how long the client of a request lets it wait."""
    wanted_wait_ms = route.endpoint.wanted_wait_ms
    return 0 if wanted_wait_ms is None or request is None else wanted_wait_ms(request) * NS_IN_MS


class SlowLog(Observer):
    """Notes when a call was created, parked and answered, and logs it if it is slow."""

    __slots__ = ("_created_ns", "_early_request", "_parked_ns", "_replied_ns", "request_bytes", "wanted_wait_ns")

    def __init__(self, call: Call) -> None:
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
            if call.request is not None:  # one of many items is decoded after the call was made
                self.wanted_wait_ns = _wanted_wait_ns(call.route, call.request)

    def replying(self, call: Call, response: Message | None) -> bool:
        self._replied_ns = self._replied_ns or perf_counter_ns()
        return True

    def finishing(self, call: Call, pieces: list[Piece]) -> bool:
        self._replied_ns = self._replied_ns or perf_counter_ns()
        return True

    def replied(self, call: Call) -> None:
        slow = call.connection.listener.shared.slow_requests
        if slow is not None:
            if self._early_request is not None:
                self.wanted_wait_ns = _wanted_wait_ns(call.route, self._early_request)
            parked_ns = min(self._parked_ns or self._replied_ns, self._replied_ns)
            answered_ns = perf_counter_ns() - self._replied_ns
            slow.ended(call, self, parked_ns - self._created_ns, self._replied_ns - parked_ns, answered_ns)
