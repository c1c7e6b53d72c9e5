"""A call of a client while there are quotas: what it costs is recorded, and the client is throttled by its answer.

Throttle times are in the response, and the connection takes no further request for as long (KIP-219). A client that
ignores the time is held by that alone.

- Produce: the bytes of the request count, and the time unless acks is 0.
- Fetch and ShareFetch: the bytes of the response. A Fetch that would exceed the quota is answered without records
  (`server/fetch/throttled_fetch.py`).
- Every other request: the time that it held the event loop. What is sent after the throttle time was set counts for the
  next request. Requests between brokers are exempt, as in Kafka.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.schema import Message
from .call import Call, ClientConnection

if TYPE_CHECKING:
    from ..quotas.client_quotas import ClientQuotas
    from .route import Route

#: Requests that only brokers send.
EXEMPT = frozenset({"WriteTxnMarkers"})
_FETCHES = frozenset({"Fetch", "ShareFetch"})


class MeteredCall(Call):
    """A call whose cost is recorded."""

    __slots__ = (
        "_began_ns", "_created_ns", "_is_exempt", "_is_judged", "_is_parked", "_meters", "_quotas", "_request_bytes",
        "_spent_ns",
    )  # fmt: skip

    is_metered = True

    def __init__(
        self, connection: ClientConnection, route: Route, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        self._is_parked = False
        self._spent_ns = 0
        self._began_ns = self._created_ns = perf_counter_ns()
        super().__init__(connection, route, correlation_id, client_id, request)
        shared = connection.listener.shared
        self._quotas: ClientQuotas = shared.quotas
        self._meters = shared.quotas.meters(connection.principal, client_id, shared.clock.now_ms)
        self._request_bytes = connection.dispatcher.frame_bytes
        self._is_exempt = route.api.name in EXEMPT
        #: Whether the bytes are recorded.
        self._is_judged = False

    @property
    def is_parked(self) -> bool:
        """Whether the handler has returned, or goes on in turns: waiting costs nothing."""
        return self._is_parked

    @is_parked.setter
    def is_parked(self, parked: bool) -> None:
        if parked and not self._is_parked:
            self._spent_ns += perf_counter_ns() - self._began_ns
        self._is_parked = parked

    def most_fetched_bytes(self) -> float:
        fetched = self._meters.fetched
        return float("inf") if fetched is None else self._quotas.most_fetched_bytes(fetched)

    def throttles_fetch(self, size: int) -> bool:
        """Records a response of `size` bytes. Returns True if it may not be sent now; then it is not recorded.

        The first response after a pause is sent, and throttled for afterwards: a batch that is larger than the quota of
        all windows would never be sent otherwise.
        """
        self._is_judged = True
        now_ms, sensor = self.now_ms, self._meters.fetched
        by_time_ms = self._time_throttle_ms(now_ms)
        was_idle = sensor is None or not sensor.rate.measure(now_ms)[0]
        by_bytes_ms = 0 if sensor is None else sensor.record(size, now_ms)
        self.throttle_time_ms = max(self.throttle_time_ms, by_bytes_ms, by_time_ms)
        if not self.throttle_time_ms or (was_idle and not by_time_ms):
            return False
        if sensor is not None:
            sensor.record(-size, now_ms)
        return True

    def spent(self, seconds: float) -> None:
        """Counts time that the call took in a later turn of the loop."""
        self._spent_ns += int(seconds * 1e9)
        if self.pieces is not None:
            self._record_rest()

    def reply(self, response: Message) -> None:
        self._judge(response)
        replied_ns = perf_counter_ns()
        super().reply(response)
        ended_ns = perf_counter_ns()
        self._spent_ns = ended_ns - replied_ns
        self._record_rest()
        self.route.times.add(ended_ns - self._created_ns)

    def announce_throttle(self, response: Message) -> None:
        self._judge(response)
        super().announce_throttle(response)

    def exempt(self) -> None:
        self._is_exempt = True

    def reply_nothing(self) -> None:
        """Ends a Produce with acks=0. Its time is exempt, its bytes are not."""
        if self.pieces is None and not self.has_failed and not self._is_judged:
            self._is_judged = True
            self.throttle_time_ms = max(self.throttle_time_ms, self._produced_throttle_ms())
        super().reply_nothing()
        self.route.times.add(perf_counter_ns() - self._created_ns)

    def _judge(self, response: Message) -> None:
        """Records what the request took and sets the throttle time, once."""
        if self._is_judged or self._is_exempt or self.pieces is not None or self.has_failed:
            return
        self._is_judged = True
        meters, name = self._meters, self.api.name
        throttle_ms = 0 if meters.requests is None else self._time_throttle_ms(self.now_ms)
        if name == "Produce":
            throttle_ms = max(throttle_ms, self._produced_throttle_ms())
        elif name in _FETCHES and meters.fetched is not None:
            throttle_ms = max(throttle_ms, meters.fetched.record(records_size(response), self.now_ms))
        if throttle_ms > self.throttle_time_ms:
            self.throttle_time_ms = throttle_ms

    def _produced_throttle_ms(self) -> int:
        produced = self._meters.produced
        return 0 if produced is None else produced.record(self._request_bytes, self.now_ms)

    def _time_throttle_ms(self, now_ms: int) -> int:
        """Records the time that the call took, and begins anew."""
        now_ns = perf_counter_ns()
        spent_ns = self._spent_ns + (0 if self._is_parked else now_ns - self._began_ns)
        self._spent_ns, self._began_ns = 0, now_ns
        requests = self._meters.requests
        return 0 if requests is None else self._quotas.request_throttle_ms(requests, spent_ns, now_ms)

    def _record_rest(self) -> None:
        """Records what was spent after the throttle time was computed."""
        spent_ns, self._spent_ns = self._spent_ns, 0
        requests = self._meters.requests
        if requests is not None and not self._is_exempt:
            self._quotas.request_throttle_ms(requests, spent_ns, self.now_ms)


def records_size(response: Any) -> int:
    """Returns the bytes of the records in the response of a Fetch or ShareFetch."""
    return sum(
        len(part.records) for topic in response.responses for part in topic.partitions if part.records is not None
    )
