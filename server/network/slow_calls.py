"""Calls of which the slow ones are logged: with `odradek.slow.request.ms` every call is timed, otherwise none of this runs.

The time of a call has three parts: handled (from its creation until the handler has returned or answered), waited (until
the answer is there: for replicas, for records, for a coordinator or a controller) and answered (encoding the response and
handing it to the socket). A wait that the client asked for does not count: `max_wait_ms` of a Fetch, the rebalance of a
group.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.schema import Message
from ..runtime.slow_requests import NS_IN_MS
from .call import Call, ClientConnection, TimedCall
from .metered_call import TimedMeteredCall

if TYPE_CHECKING:
    from .route import Route


def _wanted_wait_ns(route: Route, request: Any) -> int:
    """Returns how long the client of a request lets it wait."""
    wanted_wait_ms = route.endpoint.wanted_wait_ms
    return 0 if wanted_wait_ms is None or request is None else wanted_wait_ms(request) * NS_IN_MS


class _Watched(Call):
    """The part of a call that notes when it was created, parked and answered. Without slots: two kinds of calls have it."""

    created_ns: int
    #: 0 until then.
    parked_ns: int
    replied_ns: int
    request_bytes: int
    wanted_wait_ns: int
    early_request: Any

    def __init__(
        self, connection: ClientConnection, route: Route, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        self.created_ns = perf_counter_ns()
        self.parked_ns = self.replied_ns = 0
        super().__init__(connection, route, correlation_id, client_id, request)
        self.request_bytes = connection.dispatcher.frame_bytes
        self.wanted_wait_ns = _wanted_wait_ns(route, request)
        #: The first request of an API, whose endpoint is not imported yet: handlers of parked calls let go of requests.
        self.early_request = None if route.is_served else request

    def parked(self) -> None:
        if not self.parked_ns:
            self.parked_ns = perf_counter_ns()
            if self.request is not None:  # one of many items is decoded after the call was made
                self.wanted_wait_ns = _wanted_wait_ns(self.route, self.request)
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
            if self.early_request is not None:
                self.wanted_wait_ns = _wanted_wait_ns(self.route, self.early_request)
            parked_ns = min(self.parked_ns or self.replied_ns, self.replied_ns)
            answered_ns = perf_counter_ns() - self.replied_ns
            slow.ended(self, parked_ns - self.created_ns, self.replied_ns - parked_ns, answered_ns)


class WatchedCall(_Watched, TimedCall):
    """A call that is logged if it is slow."""


class WatchedMeteredCall(_Watched, TimedMeteredCall):
    """The same for a call whose cost is recorded."""
