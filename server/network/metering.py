"""Records the cost of calls while clients have quotas; the response of a call throttles its client.

Throttle times are in the response, and the connection takes no further request for as long (KIP-219). So a client that
ignores the time is throttled, too.

- Produce: the bytes of the request count, and the time unless acks is 0.
- Fetch and ShareFetch: the bytes of the response. A Fetch that would exceed the quota is answered without records
  (`server/fetch/fetch.py`).
- Every other request: the time that it held the event loop. Data sent after the throttle time was set counts for the
  next request. Requests between brokers are exempt, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ..access.quotas.sensors import OWED_NS, PERCENT_PER_NS
from .api_endpoint import Cost
from .call import CostMeter, Observer

if TYPE_CHECKING:
    from ...protocol.codec import Encoder
    from ...protocol.schema import Message
    from ..access.quotas.sensors import Meters, RateSensor
    from .call import Call
    from .file_sender import Piece


class Metering(CostMeter):
    """Records the cost of a call."""

    __slots__ = (
        "_began_ns",
        "_clock",
        "_is_exempt",
        "_is_recorded",
        "_meters",
        "_quotas",
        "_replying_ns",
        "_request_bytes",
        "_spent_ns",
    )

    def __init__(self, call: Call) -> None:
        self._began_ns = perf_counter_ns()
        #: Time that is not recorded yet, beside that since `_began_ns`.
        self._spent_ns = 0
        #: When there was a response; 0 when all time until now is recorded.
        self._replying_ns = 0
        connection, client_id = call.connection, call.client_id
        shared = connection.listener.shared
        self._quotas = quotas = shared.quotas
        self._clock = shared.clock
        self._meters: Meters = quotas.known_meters.get((connection.principal, client_id)) or quotas.meters(
            connection.principal, client_id, shared.clock.now_ms
        )
        if client_id is not None:  # as long as the client id stays, see `Connection.learn`
            connection.meters = self._meters
        self._request_bytes = connection.dispatcher.frame_bytes
        #: Whether the bytes are recorded.
        self._is_recorded = self._is_exempt = call.route.is_exempt

    @property
    def meter(self) -> Metering:  # type: ignore[override]
        return self

    def parked(self, call: Call) -> None:
        """Waiting costs nothing."""
        self._spent_ns += perf_counter_ns() - self._began_ns

    def most_fetched_bytes(self) -> float:
        fetched = self._meters.fetched
        return float("inf") if fetched is None else self._quotas.most_fetched_bytes(fetched)

    def throttles_fetch(self, call: Call, size: int) -> bool:
        """Records a response of `size` bytes. Returns True if it may not be sent now; then it is not recorded.

        The first response after a pause is sent, and throttled for afterwards: a batch that is larger than the quota of
        all windows would never be sent otherwise.
        """
        self._is_recorded = True
        now_ms, sensor, requests = call.now_ms, self._meters.fetched, self._meters.requests
        by_time_ms = 0 if requests is None else self._take_time(call, requests, perf_counter_ns())
        was_idle = sensor is None or not sensor.measure(now_ms)
        by_bytes_ms = 0 if sensor is None else sensor.record(size, now_ms)
        call.throttle_time_ms = max(call.throttle_time_ms, by_bytes_ms, by_time_ms)
        if not call.throttle_time_ms or (was_idle and not by_time_ms):
            return False
        if sensor is not None:
            sensor.record(-size, now_ms)
        return True

    def spent(self, call: Call, seconds: float) -> None:
        """Counts time that the call took in a later turn of the loop."""
        spent_ns, requests = int(seconds * 1e9), self._meters.requests
        if call.pieces is None:
            self._spent_ns += spent_ns
        elif requests is not None and not self._is_exempt:
            requests.record(spent_ns * PERCENT_PER_NS, call.now_ms)

    def replying(self, call: Call, response: Message | None) -> bool:
        if response is None:
            self._record_unanswered(call)
            return True
        self._replying_ns = now_ns = perf_counter_ns()
        if not self._is_recorded:
            self._record(call, response, now_ns)
        return True

    def deferred(self, call: Call) -> None:
        self._record_rest(call)

    def replied(self, call: Call) -> None:
        if self._replying_ns:
            self._record_rest(call)

    def _record_rest(self, call: Call) -> None:
        """Records what the response itself took, for the next request."""
        requests = self._meters.requests
        if requests is not None and not self._is_exempt:
            rest_ns = self._spent_ns + perf_counter_ns() - self._replying_ns
            self._spent_ns = 0
            if rest_ns < OWED_NS:
                requests.owed_ns += rest_ns
            else:
                requests.record(rest_ns * PERCENT_PER_NS, call.now_ms)
        self._replying_ns = 0

    def exempt(self) -> None:
        self._is_recorded = self._is_exempt = True

    def _record_unanswered(self, call: Call) -> None:
        """Records a Produce with acks=0. Its time is exempt, its bytes are not."""
        produced = self._meters.produced
        if not self._is_recorded and produced is not None:
            throttle_ms = produced.take(self._request_bytes, perf_counter_ns(), self._clock)
            call.throttle_time_ms = max(call.throttle_time_ms, throttle_ms)
        self._is_recorded = True

    def _record(self, call: Call, response: Message, now_ns: int) -> None:
        """Records what the request took and sets the throttle time, once."""
        self._is_recorded = True
        meters, cost = self._meters, call.route.endpoint.cost
        requests, throttle_ms = meters.requests, 0
        if requests is not None:
            throttle_ms = self._take_time(call, requests, now_ns)
        if cost is Cost.PRODUCED:
            produced = meters.produced
            if produced is not None and (by_bytes_ms := produced.take(self._request_bytes, now_ns, self._clock)):
                throttle_ms = max(throttle_ms, by_bytes_ms)
        elif cost is Cost.FETCHED and meters.fetched is not None:
            throttle_ms = max(throttle_ms, meters.fetched.take(records_size(response), now_ns, self._clock))
        call.throttle_time_ms = max(call.throttle_time_ms, throttle_ms)

    def _take_time(self, call: Call, requests: RateSensor, now_ns: int) -> int:
        """Records the time until now. Returns the throttle time in ms."""
        spent_ns = self._spent_ns + requests.owed_ns
        if not call.is_parked:
            spent_ns += now_ns - self._began_ns
            self._began_ns = now_ns
        self._spent_ns = requests.owed_ns = 0
        throttle_ms = requests.take(spent_ns * PERCENT_PER_NS, now_ns, self._clock)
        return min(throttle_ms, self._quotas.longest_pause_ms) if throttle_ms else 0


class GrantedProduce(Observer):
    """Follows Produces that lead to no throttle. Their bytes are already recorded; the dispatcher records their time.

    A client far from its quotas sends hardly any other requests, and these cost no more than unmetered calls.
    """

    __slots__ = ()

    def parked(self, call: Call) -> None:
        """The response comes later: the time that it takes to encode is recorded then."""
        meters = call.connection.meters
        if meters is not None and meters.requests is not None:
            call.encode = _timed(call.encode, meters.requests)


GRANTED_PRODUCE = GrantedProduce()


def _timed(encode: Encoder[Message], requests: RateSensor) -> Encoder[Message]:
    def encode_timed(response: Message, add: Callable[[Piece], None]) -> None:
        began_ns = perf_counter_ns()
        encode(response, add)
        requests.owed_ns += perf_counter_ns() - began_ns

    return encode_timed


def records_size(response: Any) -> int:
    """Returns the bytes of the records in the response of a Fetch or ShareFetch."""
    return sum(
        len(part.records) for topic in response.responses for part in topic.partitions if part.records is not None
    )
