"""The quotas of clients of this node, as the metadata has them, and what clients have used.

Without a quota for bytes or requests nothing is measured: `on_metering` tells the dispatcher of clients when to
begin and when to stop (KIP-13, KIP-55, KIP-124, KIP-599).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ....metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from .rates import ConnectionRates
from .sensors import (
    LONGEST_KEPT_ID,
    MOST_CLIENTS,
    BucketSensor,
    Find,
    Meters,
    Quota,
    QuotaGeneration,
    RateSensor,
    Sensors,
    Share,
)

if TYPE_CHECKING:
    from ....metadata.image import QuotaEntity
    from ...config.broker_config import BrokerConfig


# Quotas by a class of a user's own: `client.quota.callback.class=python:package.module:Name` (KIP-257).
#
# It decides which clients share a quota, and the quota. Without it both follow from the quotas in the metadata of the
# cluster.


log = logging.getLogger("odradek.quotas")


class QuotaKind(Enum):
    """The kinds of quotas. The units of their limits: bytes a second, percent of a second, partitions a second."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


@runtime_checkable
class ClientQuotaCallback(Protocol):
    """Decides on the quotas of clients. It runs in the event loop: it must answer at once, from memory.

    A quota that it returns for a client is kept until `quota_reset_required` returns True.
    """

    def quota_tags(self, kind: QuotaKind, principal: str, client_id: str) -> Mapping[str, str]:
        """Returns what names the quota of a client: clients with the same tags share one. `principal`: "User:alice"."""

    def quota_limit(self, kind: QuotaKind, tags: Mapping[str, str]) -> float | None:
        """Returns the limit for these tags; None for no limit."""

    def quota_reset_required(self, kind: QuotaKind) -> bool:
        """Returns whether a limit may have changed since the last call. The broker calls it for each request."""


@runtime_checkable
class FollowsQuotas(Protocol):
    """A callback that uses the quotas in the metadata of the cluster, as `kafka-configs.sh` sets them."""

    def quotas_changed(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Takes all quotas by entity: pairs of "user", "client-id" or "ip" and a name, None for the default."""


class OwnQuotas:
    """The quotas of a callback. An exception is logged, and the client then has no quota."""

    def __init__(self, callback: ClientQuotaCallback) -> None:
        self._callback = callback

    def quota(self, kind: QuotaKind, principal: str, client_id: str) -> Quota | None:
        """Returns the quota of a client, and the clients that share it."""
        try:
            tags = self._callback.quota_tags(kind, principal, client_id)
            limit = self._callback.quota_limit(kind, tags)
            return None if limit is None else Quota(Share(repr(sorted(tags.items())), ""), float(limit))
        except Exception:
            log.exception("%s failed; %s has no quota", type(self._callback).__name__, kind.value)
            return None

    def have_changed(self, kinds: Iterable[QuotaKind]) -> bool:
        """Returns whether a limit of one of the kinds may have changed. It calls the callback for every kind."""
        try:
            return True in [self._callback.quota_reset_required(kind) for kind in kinds]
        except Exception:
            log.exception("%s failed; quotas are unchanged", type(self._callback).__name__)
            return False

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Passes on the quotas in the metadata of the cluster."""
        if isinstance(self._callback, FollowsQuotas):
            try:
                self._callback.quotas_changed(quotas)
            except Exception:
                log.exception("%s failed to apply the quotas of the cluster", type(self._callback).__name__)


Quotas = Mapping["QuotaEntity", Mapping[str, float]]
#: By entity the keys that changed; their values do not matter here.
Changes = Mapping["QuotaEntity", Mapping[str, float | None]]

#: The quotas for which every request of a client is looked at.
_METERED = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
_METERED_KINDS = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST)
_NOTHING: Mapping[str, float] = {}


class ClientQuotas:
    """The quotas of a node and the sensors of its clients."""

    def __init__(self, config: BrokerConfig, callback: OwnQuotas | None = None) -> None:
        self._callback = callback
        windows: int = config.get("quota.window.num")
        window_ms: int = 1000 * config.get("quota.window.size.seconds")
        #: No single response exceeds the quota of fetched bytes: it has at most the bytes of all windows but one, in
        #: seconds.
        self._whole_windows_s = (windows - 1) * window_ms / 1000
        #: A throttle by time spent, and by new connections, is at most so long.
        self.longest_pause_ms = window_ms
        mutation_windows: int = config.get("controller.quota.window.num")
        mutation_window_ms = 1000 * config.get("controller.quota.window.size.seconds")

        def rates() -> RateSensor:
            return RateSensor(windows, window_ms)

        self.produced = Sensors(self._finder(PRODUCER_BYTE_RATE), rates, self._own(QuotaKind.PRODUCE))
        self.fetched = Sensors(self._finder(CONSUMER_BYTE_RATE), rates, self._own(QuotaKind.FETCH))
        self.requests = Sensors(self._finder(REQUEST_PERCENTAGE), rates, self._own(QuotaKind.REQUEST))
        self.mutations = Sensors(
            self._finder(CONTROLLER_MUTATION_RATE),
            lambda: BucketSensor(mutation_windows, mutation_window_ms),
            self._own(QuotaKind.CONTROLLER_MUTATION),
        )
        self.connections = ConnectionRates(rates, self.longest_pause_ms)
        self._on_metering: Callable[[bool], None] = lambda on: None
        #: Clients that have sent a request, by principal and client id.
        self._meters: dict[tuple[str, str | None], Meters] = {}
        #: The same, to be looked at in place of a call of `meters`. Empty where a class of a user's own is to be asked.
        self.known_meters = self._meters if callback is None else {}
        #: The generation of `_meters`. With a user's own callback class, connections cache no meters.
        self._generation = QuotaGeneration()
        self._generation.is_current = callback is None
        for sensors in (self.produced, self.fetched, self.requests):
            sensors.on_dropped = self._forget_meters
        self._quotas: Quotas = {}
        #: By key, the entities that have a quota.
        self._counts: Counter[str] = Counter()
        self._is_metering = False

    @property
    def on_metering(self) -> Callable[[bool], None]:
        """Called with True when requests are to be metered, and with False when they no longer are."""
        return self._on_metering

    @on_metering.setter
    def on_metering(self, function: Callable[[bool], None]) -> None:
        self._on_metering = function
        if self._callback is not None:
            function(True)

    def apply(self, changes: Changes, quotas: Quotas) -> None:
        """Takes over new quotas. `changes` leads from the previous ones to `quotas`."""
        if not changes:
            return
        for entity, changed in changes.items():
            before, after = self._quotas.get(entity, _NOTHING), quotas.get(entity, _NOTHING)
            for key in changed:
                self._counts[key] += (key in after) - (key in before)
            if CONNECTION_CREATION_RATE in changed:
                self.connections.set(entity, after.get(CONNECTION_CREATION_RATE))
        self._quotas = quotas
        if self._callback is not None:
            self._callback.follow(quotas)
        self._forget_quotas()
        is_metering = self._callback is not None or any(self._counts[key] for key in _METERED)
        if is_metering != self._is_metering:
            self._is_metering = is_metering
            self.on_metering(is_metering)

    def _forget_quotas(self) -> None:
        for sensors in (self.produced, self.fetched, self.requests):
            sensors.forget_quotas()
        self.mutations.forget_quotas()
        self._forget_meters()

    def _forget_meters(self) -> None:
        self._meters.clear()
        self._generation.is_current = False
        self._generation = QuotaGeneration()
        self._generation.is_current = self._callback is None

    def user_of(self, principal: str, kind: QuotaKind) -> str:
        """Returns the user of a client for its sensors; with a callback of the user's own, the whole principal."""
        if self._callback is None:
            return principal.partition(":")[2]
        if self._callback.have_changed((kind,)):
            self._forget_quotas()
        return principal

    def meters(self, principal: str, client_id: str | None, now_ms: Callable[[], int]) -> Meters:
        """Returns the sensors of a client. `now_ms` is called for one that has not been seen."""
        if self._callback is not None and self._callback.have_changed(_METERED_KINDS):
            self._forget_quotas()
        found = self._meters.get((principal, client_id))
        return self._learn(principal, client_id, now_ms()) if found is None else found

    def most_fetched_bytes(self, fetched: RateSensor) -> float:
        """Returns how much may be fetched at once without a throttle after a pause."""
        return fetched.bound * self._whole_windows_s

    def _learn(self, principal: str, client_id: str | None, now_ms: int) -> Meters:
        user = principal if self._callback is not None else principal.partition(":")[2]
        client = (user, client_id or "", now_ms)
        sensors = self.produced.of(*client), self.fetched.of(*client), self.requests.of(*client)
        found = Meters(*sensors, self._generation)
        if len(self._meters) >= MOST_CLIENTS:
            self._meters.clear()
        if len(client[1]) <= LONGEST_KEPT_ID:
            self._meters[principal, client_id] = found
        return found

    def _own(self, kind: QuotaKind) -> Callable[[str, str], Quota | None] | None:
        callback = self._callback
        return None if callback is None else partial(callback.quota, kind)

    def _finder(self, key: str) -> Find:
        def find(entity: QuotaEntity) -> float | None:
            return self._quotas.get(entity, _NOTHING).get(key)

        return find


# The quota of changes of a client to topics: partitions created and deleted, counted at the active controller
# (KIP-599).
#
# Versions of a request that know THROTTLING_QUOTA_EXCEEDED are held strictly: no change is made while the quota is
# exceeded, and one that exceeds it is made whole. Of older versions every change is made, and the client is
# throttled.


class MutationQuota:
    """The quota for the changes of one request."""

    __slots__ = ("_is_strict", "_now_ms", "_sensor", "throttle_ms")

    def __init__(self, sensor: BucketSensor, now_ms: int, *, is_strict: bool) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._is_strict = is_strict
        #: The throttle time of the response; 0 while the quota is kept.
        self.throttle_ms = 0

    def rejects(self, partitions: int) -> bool:
        """Counts a change of so many partitions. Returns True if it may not be made, and then is not counted."""
        if not self._is_strict:
            self.throttle_ms = self._sensor.record(partitions, self._now_ms)
            return False
        exceeded_ms = self._sensor.throttle_ms(self._now_ms)
        if exceeded_ms:
            self.throttle_ms = exceeded_ms
            return True
        self._sensor.record(partitions, self._now_ms)
        return False


def mutation_quota(
    quotas: ClientQuotas, principal: str, client_id: str | None, now_ms: int, *, is_strict: bool
) -> MutationQuota | None:
    """Returns the quota that holds for a client's request; None without one."""
    sensor = quotas.mutations.of(quotas.user_of(principal, QuotaKind.CONTROLLER_MUTATION), client_id or "", now_ms)
    return None if sensor is None else MutationQuota(sensor, now_ms, is_strict=is_strict)
