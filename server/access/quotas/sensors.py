"""Measures of the clients that have a quota of one kind: found by client, shared like the quota, bounded in number.

- `RateSensor`, `BucketSensor`: a measure against a quota; `Meters` are those of one client.
- `Sensors`: all measures of one kind of quota.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from heapq import nsmallest
from typing import Generic, Protocol, TypeVar

from ...runtime.clock import Clock
from .quota_lookup import Find, Quota, Share, quota_of
from .rates import Rate, TokenBucket, bucket_throttle_ms, rate_throttle_ms

#: A measure of a client that was silent for so long is dropped, as in Kafka.
EXPIRY_MS = 3_600_000
#  Measures of one kind of quota, some 1 KB each. Beyond it those that were not used for longest are dropped: a client that
#  makes up client ids without end has a new measure for each of them anyway.
MOST_SENSORS = 10_000
#: Measures that are dropped at once to make room: to find them takes 2 ms.
DROPPED_SENSORS = 100
#: Clients (a user and a client id each) whose quota is remembered.
MOST_CLIENTS = 20_000
#: A shorter time is recorded with that of the client's next request: to record it apart costs more than it stands for.
OWED_NS = 1_000_000
#: A percentage of the event loop's time, which is the broker's: a nanosecond in a second.
PERCENT_PER_NS = 100 / 1e9
#: The time that Produce requests within all quotas owe, before the next one records it.
MOST_OWED_NS = 5_000_000
#: The same as a percentage, with the time of a Produce that takes the budget of a turn.
_MOST_OWED_PERCENT = (MOST_OWED_NS + 20_000_000) * PERCENT_PER_NS
#: Longer client ids are kept as digests. The protocol allows 32 KB.
LONGEST_KEPT_ID = 200


class Sensor(Protocol):
    """A measure, with the quota that holds for it now and the time of its last use."""

    bound: float
    used_ms: int


class RateSensor:
    """A rate against its quota.

    `take` is for every request of a client. Nearly all are far within the quota. So the sensor grants itself the amount that
    needs no throttle before the current window is over, and then only subtracts. The taken amount goes into the rate when
    the grant ends.
    """

    __slots__ = (
        "_at_ms",
        "_at_ns",
        "_bound",
        "_granted",
        "last_ns",
        "left",
        "owed_ns",
        "rate",
        "until_ns",
        "used_ms",
    )

    def __init__(self, windows: int, window_ms: int) -> None:
        self.rate = Rate(windows, window_ms)
        self._bound = 0.0
        self.used_ms = 0
        #: Time of requests that is recorded with the next one's.
        self.owed_ns = 0
        #: The grant, what is left of it, until when it holds, and when something was taken last. Times in ns are those of
        #: `perf_counter_ns`; `_at_ms` and `_at_ns` are the same moment.
        self._granted = self.left = 0.0
        self.until_ns = self.last_ns = self._at_ns = self._at_ms = 0

    @property
    def bound(self) -> float:
        """The quota, per second."""
        return self._bound

    @bound.setter
    def bound(self, per_second: float) -> None:
        self._end_grant()
        self._bound = per_second
        self.rate.set_guaranteed_bound(per_second)

    def take(self, value: float, now_ns: int, clock: Clock) -> int:
        """Records a value of 0 or more. `now_ns`: of `perf_counter_ns`. Returns the throttle time in ms."""
        left = self.left - value
        if left >= 0 and now_ns < self.until_ns:
            self.left, self.last_ns = left, now_ns
            return 0
        now_ms = clock.now_ms()
        throttle_ms = self.record(value, now_ms)
        if not throttle_ms and clock.is_system:
            self._grant(now_ms, now_ns)
        return throttle_ms

    def record(self, value: float, now_ms: int) -> int:
        """Records a value. Returns the throttle time in ms, 0 within the quota."""
        self._end_grant()
        self.used_ms = now_ms
        self.rate.record(value, now_ms)
        rate, over_ms = self.rate.measure(now_ms)
        return rate_throttle_ms(rate, self._bound, over_ms)

    def measure(self, now_ms: int) -> float:
        """Returns the rate per second."""
        self._end_grant()
        return self.rate.measure(now_ms)[0]

    def _grant(self, now_ms: int, now_ns: int) -> None:
        within, until_ms = self.rate.guaranteed_allowance(now_ms)
        if within > 0:
            self._granted = self.left = within
            self._at_ms, self._at_ns = now_ms, now_ns
            self.until_ns = now_ns + (until_ms - now_ms) * 1_000_000

    def _end_grant(self) -> None:
        taken = self._granted - self.left
        self._granted = self.left = 0.0
        self.until_ns = 0
        if taken:
            self.rate.record(taken, self._at_ms + (self.last_ns - self._at_ns) // 1_000_000)


class QuotaGeneration:
    """The validity of all `Meters` that were made since the last change of the quotas."""

    __slots__ = ("is_current",)

    def __init__(self) -> None:
        self.is_current = True


class Meters:
    """The sensors of a client: None for each quota that it does not have."""

    __slots__ = ("fetched", "generation", "produced", "requests")

    def __init__(
        self,
        produced: RateSensor | None,
        fetched: RateSensor | None,
        requests: RateSensor | None,
        generation: QuotaGeneration,
    ) -> None:
        self.produced = produced
        self.fetched = fetched
        self.requests = requests
        self.generation = generation

    def takes_produce(self, size: int, now_ns: int) -> bool:
        """Records the bytes of a Produce if neither they nor its time can lead to a throttle. Returns whether it did.

        The next request records the time. `now_ns`: of `perf_counter_ns`. Every Produce of a client with a quota calls it.
        """
        if not self.generation.is_current:
            return False
        requests, produced = self.requests, self.produced
        if requests is not None and (
            requests.owed_ns >= MOST_OWED_NS or requests.left < _MOST_OWED_PERCENT or now_ns >= requests.until_ns
        ):
            return False
        if produced is not None:
            left = produced.left - size
            if left < 0 or now_ns >= produced.until_ns:
                return False
            produced.left, produced.last_ns = left, now_ns
        return True


class BucketSensor:
    """A bucket of tokens against its quota."""

    __slots__ = ("bound", "bucket", "used_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        self.bucket = TokenBucket(windows, window_ms)
        self.bound = 0.0
        self.used_ms = 0

    def throttle_ms(self, now_ms: int) -> int:
        """Returns the time until the bucket is not overdrawn any more, in ms."""
        return bucket_throttle_ms(self.bucket.measure(self.bound, now_ms), self.bound)

    def record(self, value: float, now_ms: int) -> int:
        """Takes tokens. Returns the throttle time in ms, 0 within the quota."""
        self.used_ms = now_ms
        self.bucket.record(value, self.bound, now_ms)
        return self.throttle_ms(now_ms)


SensorT = TypeVar("SensorT", bound=Sensor)


class Sensors(Generic[SensorT]):
    """The sensors of one kind of quota. `find` looks up the quota of an entity, `make` makes a sensor. With `own`, a
    class of a user's own decides on the quota of a client, by its user and client id.
    """

    def __init__(
        self, find: Find, make: Callable[[], SensorT], own: Callable[[str, str], Quota | None] | None = None
    ) -> None:
        self._find = find
        self._own = own
        self._make = make
        self._sensors: dict[Share, SensorT] = {}
        self._clients: dict[tuple[str, str], SensorT | None] = {}
        self._swept_ms = 0
        #: Called when sensors were dropped: code that keeps some has to find them anew.
        self.on_dropped: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._sensors)

    def of(self, user: str, client_id: str, now_ms: int) -> SensorT | None:
        """Returns the sensor of a client, None if it has no quota."""
        client = (user, client_id if len(client_id) <= LONGEST_KEPT_ID else _digest(client_id))
        try:
            sensor = self._clients[client]
        except KeyError:
            sensor = self._learn(client, client_id, now_ms)
        if sensor is not None:
            sensor.used_ms = now_ms
        return sensor

    def forget_quotas(self) -> None:
        """Has each quota looked up again, because some have changed. Measured rates stay."""
        self._clients.clear()

    def _learn(self, client: tuple[str, str], client_id: str, now_ms: int) -> SensorT | None:
        if len(self._clients) >= MOST_CLIENTS:
            self._clients.clear()
        if now_ms - self._swept_ms >= EXPIRY_MS:
            self._sweep(now_ms)
        quota = quota_of(self._find, client[0], client_id) if self._own is None else self._own(client[0], client_id)
        sensor = None
        if quota is not None:
            share = Share(quota.share.user, client[1] if quota.share.client_id else "")
            sensor = self._sensors.get(share)
            if sensor is None:
                self._make_room()
                sensor = self._sensors[share] = self._make()
            sensor.bound = quota.bound
        self._clients[client] = sensor
        return sensor

    def _sweep(self, now_ms: int) -> None:
        """Drops the sensors that were not used for `EXPIRY_MS`."""
        self._swept_ms = now_ms
        self._clients.clear()
        for share in [share for share, one in self._sensors.items() if now_ms - one.used_ms >= EXPIRY_MS]:
            del self._sensors[share]
        self.on_dropped()

    def _make_room(self) -> None:
        """Drops sensors where there are too many. Clients that were found by them find new ones."""
        if len(self._sensors) < MOST_SENSORS:
            return
        for share in nsmallest(DROPPED_SENSORS, self._sensors, key=lambda share: self._sensors[share].used_ms):
            del self._sensors[share]
        self._clients.clear()
        self.on_dropped()


def _digest(client_id: str) -> str:
    return sha256(client_id.encode()).hexdigest()
