"""The observers of calls: what calls cost while clients have quotas, and which of them are slow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...client.shown_text import shown
from ..access.quotas.sensors import OWED_NS, PERCENT_PER_NS
from .api_endpoint import Cost
from .call import Call, CostMeter, Observer, Route

if TYPE_CHECKING:
    from ...protocol.codec import Encoder
    from ...protocol.schema import Message
    from ..access.quotas.sensors import Meters, RateSensor
    from .file_sender import Piece


# ---- quotas
#
# Records the cost of calls while clients have quotas; the response of a call throttles its client.
#
# Throttle times are in the response, and the connection takes no further request for as long (KIP-219). So a client that
# ignores the time is throttled, too.
#
# - Produce: the bytes of the request count, and the time unless acks is 0.
# - Fetch and ShareFetch: the bytes of the response. A Fetch that would exceed the quota is answered without records
#   (`server/data_path/fetch.py`).
# - Every other request: the time that it held the event loop. Data sent after the throttle time was set counts for the
#   next request. Requests between brokers are exempt, as in Kafka.


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


def _timed(encode: Encoder, requests: RateSensor) -> Encoder:
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


# ---- slow calls
#
# With `odradek.slow.request.ms` every call is timed, otherwise none of this runs.
#
# The time of a call has three parts: handled (from its creation until the handler has returned or answered), waited (until
# the response is there: for replicas, for records, for a coordinator or a controller) and answered (encoding the response
# and handing it to the socket). A wait that the client asked for does not count: `max_wait_ms` of a Fetch, the rebalance of
# a group.
#
# The log has at most `MOST_LINES` lines in `LOG_INTERVAL_S`; the requests between are counted.

log = logging.getLogger("odradek.slow")

MOST_LINES = 10
LOG_INTERVAL_S = 10.0
NS_IN_MS = 1_000_000


def _wanted_wait_ns(route: Route, request: Message | None) -> int:
    """Returns how long the client of a request lets it wait."""
    wanted_wait_ms = route.endpoint.wanted_wait_ms
    return 0 if wanted_wait_ms is None or request is None else wanted_wait_ms(request) * NS_IN_MS


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
            if call.request is not None:  # one of many items is decoded after the call was made
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
