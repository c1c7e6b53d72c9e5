"""The quotas of clients of this node, as the metadata has them, and what clients have used.

Without a quota for bytes or requests nothing is measured: `on_metering` tells the dispatcher of clients when to
begin and when to stop (KIP-13, KIP-55, KIP-124, KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ....metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from .connection_rates import ConnectionRates
from .quota_callback import OwnQuotas, QuotaKind
from .quota_lookup import Find, Quota
from .sensors import LONGEST_KEPT_ID, MOST_CLIENTS, BucketSensor, Meters, QuotaGeneration, RateSensor, Sensors

if TYPE_CHECKING:
    from ....metadata.image import QuotaEntity
    from ...config.broker_config import BrokerConfig

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
        windows = config.get("quota.window.num")
        window_ms: int = 1000 * config.get("quota.window.size.seconds")
        #: No single response exceeds the quota of fetched bytes: it has at most the bytes of all windows but one, in
        #: seconds.
        self._whole_windows_s = (windows - 1) * window_ms / 1000
        #: A throttle by time spent, and by new connections, is at most so long.
        self.longest_pause_ms = window_ms
        mutation_windows = config.get("controller.quota.window.num")
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
