"""A call of a client with quotas: its cost is recorded, and its response throttles the client.

Throttle times are in the response, and the connection takes no further request for as long (KIP-219). So a client that
ignores the time is throttled, too.

- Produce: the bytes of the request count, and the time unless acks is 0.
- Fetch and ShareFetch: the bytes of the response. A Fetch that would exceed the quota is answered without records
  (`server/fetch/throttled_fetch.py`).
- Every other request: the time that it held the event loop. Data sent after the throttle time was set counts for the
next request. Requests between brokers are exempt, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.schema import Message
from ..access.quotas.sensors import OWED_NS, PERCENT_PER_NS
from .api_endpoint import Cost
from .call import Call, ClientConnection

if TYPE_CHECKING:
    from ..access.quotas.client_quotas import ClientQuotas
    from ..access.quotas.sensors import Meters, RateSensor
    from .route import Route

Encode = Callable[[Any, Callable[[Any], None]], None]


class MeteredCall(Call):
    """A call whose cost is recorded."""

    __slots__ = ("_began_ns", "_clock", "_is_exempt", "_is_judged", "_meters", "_request_bytes", "_spent_ns")

    is_metered = True

    def __init__(
        self, connection: ClientConnection, route: Route, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        self._began_ns = perf_counter_ns()
        Call.__init__(self, connection, route, correlation_id, client_id, request)
        #: Time that is not recorded yet, beside that since `_began_ns`.
        self._spent_ns = 0
        shared = connection.listener.shared
        quotas = shared.quotas
        self._clock = shared.clock
        self._meters: Meters = quotas.known_meters.get((connection.principal, client_id)) or quotas.meters(
            connection.principal, client_id, shared.clock.now_ms
        )
        if client_id is not None:  # as long as the client id stays, see `Connection.learn`
            connection.meters = self._meters
        self._request_bytes = connection.dispatcher.frame_bytes
        #: Whether the bytes are recorded.
        self._is_judged = self._is_exempt = route.is_exempt

    def parked(self) -> None:
        """The handler has returned, or goes on in turns: waiting costs nothing."""
        self.is_parked = True
        self._spent_ns += perf_counter_ns() - self._began_ns

    def most_fetched_bytes(self) -> float:
        fetched = self._meters.fetched
        return float("inf") if fetched is None else self._quotas.most_fetched_bytes(fetched)

    def throttles_fetch(self, size: int) -> bool:
        """Records a response of `size` bytes. Returns True if it may not be sent now; then it is not recorded.

        The first response after a pause is sent, and throttled for afterwards: a batch that is larger than the quota of
        all windows would never be sent otherwise.
        """
        self._is_judged = True
        now_ms, sensor, requests = self.now_ms, self._meters.fetched, self._meters.requests
        by_time_ms = 0 if requests is None else self._take_time(requests, perf_counter_ns())
        was_idle = sensor is None or not sensor.measure(now_ms)
        by_bytes_ms = 0 if sensor is None else sensor.record(size, now_ms)
        self.throttle_time_ms = max(self.throttle_time_ms, by_bytes_ms, by_time_ms)
        if not self.throttle_time_ms or (was_idle and not by_time_ms):
            return False
        if sensor is not None:
            sensor.record(-size, now_ms)
        return True

    def spent(self, seconds: float) -> None:
        """Counts time that the call took in a later turn of the loop."""
        spent_ns, requests = int(seconds * 1e9), self._meters.requests
        if self.pieces is None:
            self._spent_ns += spent_ns
        elif requests is not None and not self._is_exempt:
            requests.record(spent_ns * PERCENT_PER_NS, self.now_ms)

    def reply(self, response: Message) -> None:
        now_ns = perf_counter_ns()
        if not self._is_judged:
            self._judge(response, now_ns)
        Call.reply(self, response)
        requests = self._meters.requests
        if requests is not None and not self._is_exempt:
            rest_ns = self._spent_ns + perf_counter_ns() - now_ns
            self._spent_ns = 0
            if rest_ns < OWED_NS:
                requests.owed_ns += rest_ns
            else:
                requests.record(rest_ns * PERCENT_PER_NS, self.now_ms)

    def announce_throttle(self, response: Message) -> None:
        if not self._is_judged:
            self._judge(response, perf_counter_ns())
        super().announce_throttle(response)

    def exempt(self) -> None:
        self._is_judged = self._is_exempt = True

    def reply_nothing(self) -> None:
        """Ends a Produce with acks=0. Its time is exempt, its bytes are not."""
        if self.pieces is None and not self.has_failed and not self._is_judged:
            self._is_judged = True
            produced = self._meters.produced
            if produced is not None:
                throttle_ms = produced.take(self._request_bytes, perf_counter_ns(), self._clock)
                self.throttle_time_ms = max(self.throttle_time_ms, throttle_ms)
        super().reply_nothing()

    def _judge(self, response: Message, now_ns: int) -> None:
        """Records what the request took and sets the throttle time, once."""
        if self.pieces is not None or self.has_failed:
            return
        self._is_judged = True
        meters, cost = self._meters, self.route.endpoint.cost
        requests, throttle_ms = meters.requests, 0
        if requests is not None:
            throttle_ms = self._take_time(requests, now_ns)
        if cost is Cost.PRODUCED:
            produced = meters.produced
            if produced is not None and (by_bytes_ms := produced.take(self._request_bytes, now_ns, self._clock)):
                throttle_ms = max(throttle_ms, by_bytes_ms)
        elif cost is Cost.FETCHED and meters.fetched is not None:
            throttle_ms = max(throttle_ms, meters.fetched.take(records_size(response), now_ns, self._clock))
        if throttle_ms > self.throttle_time_ms:
            self.throttle_time_ms = throttle_ms

    def _take_time(self, requests: RateSensor, now_ns: int) -> int:
        """Records the time until now. Returns the throttle time in ms."""
        spent_ns = self._spent_ns + requests.owed_ns
        if not self.is_parked:
            spent_ns += now_ns - self._began_ns
            self._began_ns = now_ns
        self._spent_ns = requests.owed_ns = 0
        throttle_ms = requests.take(spent_ns * PERCENT_PER_NS, now_ns, self._clock)
        return min(throttle_ms, self._quotas.longest_pause_ms) if throttle_ms else 0

    @property
    def _quotas(self) -> ClientQuotas:
        return self.connection.listener.shared.quotas


class GrantedProduce(Call):
    """A Produce that leads to no throttle. Its bytes are already recorded; the dispatcher records its time.

    A client far from its quotas sends hardly any other requests, and this one costs no more than an unmetered call.
    """

    __slots__ = ()

    def parked(self) -> None:
        """The response comes later: the time that it takes to encode is recorded then."""
        self.is_parked = True
        meters: Meters | None = self.connection.meters
        if meters is not None and meters.requests is not None:
            self._encode = _timed(self._encode, meters.requests)


def _timed(encode: Encode, requests: RateSensor) -> Encode:
    def encode_timed(response: Any, add: Callable[[Any], None]) -> None:
        began_ns = perf_counter_ns()
        encode(response, add)
        requests.owed_ns += perf_counter_ns() - began_ns

    return encode_timed


class TimedMeteredCall(MeteredCall):
    """A metered call whose time is measured from its creation to the response, like that of `TimedCall`."""

    __slots__ = ("_created_ns",)

    def __init__(
        self, connection: ClientConnection, route: Route, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        super().__init__(connection, route, correlation_id, client_id, request)
        self._created_ns = self._began_ns

    def reply(self, response: Message) -> None:
        super().reply(response)
        self.route.times.add(perf_counter_ns() - self._created_ns)

    def reply_nothing(self) -> None:
        super().reply_nothing()
        self.route.times.add(perf_counter_ns() - self._created_ns)


def records_size(response: Any) -> int:
    """Returns the bytes of the records in the response of a Fetch or ShareFetch."""
    return sum(
        len(part.records) for topic in response.responses for part in topic.partitions if part.records is not None
    )
