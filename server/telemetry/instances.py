"""Client instances: what each of them is subscribed to, and when it may ask and push next (KIP-714).

The states and errors are those of Kafka's ClientMetricsManager:

- An instance is known from its first request until its connection ends, or it is silent for three intervals.
- It may ask again one interval after its last request, or at once when subscriptions have changed.
- It may push right after it asked, and then once in an interval. A terminating push may come at any time, and is
  the last.
- A push with another subscription id is UNKNOWN_SUBSCRIPTION_ID: the client asks again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ...protocol.checksum import crc32c
from ...protocol.errors import ErrorCode
from ...protocol.records.compression import Compression
from .subscriptions import ClientLabels, Subscription, Wanted, wanted

#: Instances that are known at a time, as in Kafka; the one that was silent for longest is forgotten for a new one.
MOST_INSTANCES = 16_384
#: An instance is forgotten after this time, or three intervals.
SHORTEST_EXPIRY_MS = 60_000
#: Instances that are looked at with each request for whether they are silent.
_SWEPT = 4


class Instance:
    """A client instance."""

    __slots__ = ("asked_ms", "client", "connection", "is_terminating", "pushed_ms", "seen_ms", "subscription_id",
                 "version", "wanted")  # fmt: skip

    def __init__(
        self, client: ClientLabels, instance_id: bytes, asked: Wanted, version: int, connection: object
    ) -> None:
        self.client = client
        self.wanted = asked
        #: The version of the subscriptions that it was matched with.
        self.version = version
        self.subscription_id = subscription_id(instance_id, asked)
        self.connection = connection
        self.asked_ms = self.pushed_ms = self.seen_ms = 0
        self.is_terminating = False

    def may_ask(self, now_ms: int) -> bool:
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.wanted.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.wanted.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True

    @property
    def expiry_ms(self) -> int:
        return max(SHORTEST_EXPIRY_MS, 3 * self.wanted.interval_ms)


class Push(NamedTuple):
    """A push that is checked: what its size, compression and id say."""

    subscription_id: int
    is_terminating: bool
    compression_type: int
    size: int


class Instances:
    """The client instances of a broker. `max_bytes`: telemetry.max.bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._subscriptions: list[Subscription] = []
        self._version = 0
        #: By id, the one that was seen last at the end.
        self._instances: dict[bytes, Instance] = {}
        self._by_connection: dict[object, bytes] = {}
        self.throttled = self.unknown_subscriptions = 0

    def __len__(self) -> int:
        return len(self._instances)

    def set_subscriptions(self, subscriptions: list[Subscription]) -> None:
        """Takes over other subscriptions. Each instance is matched anew with its next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def ask(
        self, instance_id: bytes, describe: Callable[[], ClientLabels], connection: object, now_ms: int
    ) -> Instance | ErrorCode:
        """Returns the instance with what it is to push, or the error of the request."""
        instance = self._find(instance_id, describe, connection, now_ms)
        if not instance.may_ask(now_ms):
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return instance

    def push(
        self, instance_id: bytes, describe: Callable[[], ClientLabels], connection: object, push: Push, now_ms: int
    ) -> Instance | ErrorCode:
        """Returns the instance whose push is taken, or the error of the request."""
        instance = self._find(instance_id, describe, connection, now_ms)
        error = self._error(instance, push, now_ms)
        instance.is_terminating = push.is_terminating
        return error or instance

    def disconnected(self, connection: object) -> None:
        """Forgets the instance of a connection."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _error(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode | None:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(now_ms) and not push.is_terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in Compression.__members__.values():
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if push.size > self._max_bytes else None

    def _find(
        self, instance_id: bytes, describe: Callable[[], ClientLabels], connection: object, now_ms: int
    ) -> Instance:
        instance = self._instances.pop(instance_id, None)
        if instance is None or instance.version < self._version:
            client = describe() if instance is None else instance.client
            asked = wanted(self._subscriptions, client)
            instance = Instance(client, instance_id, asked, self._version, connection)
            self._by_connection[connection] = instance_id
        self._instances[instance_id] = instance
        instance.seen_ms = now_ms
        self._sweep(now_ms)
        return instance

    def _sweep(self, now_ms: int) -> None:
        """Forgets instances that are silent, and the one that is for longest where there are too many."""
        for instance_id in [one for one, _ in zip(self._instances, range(_SWEPT), strict=False)]:
            instance = self._instances[instance_id]
            if len(self._instances) > MOST_INSTANCES or now_ms - instance.seen_ms >= instance.expiry_ms:
                del self._instances[instance_id]
                self._by_connection.pop(instance.connection, None)


def subscription_id(instance_id: bytes, asked: Wanted) -> int:
    """Returns a number that changes with what an instance is subscribed to."""
    text = f"[{', '.join(asked.metrics)}]{asked.interval_ms}"
    high, low = struct.unpack(">QQ", instance_id)
    hashed = (high ^ low) >> 32 ^ (high ^ low) & 0xFFFFFFFF
    number: int = crc32c(text.encode()) ^ hashed
    return number - (1 << 32) if number >= 1 << 31 else number
