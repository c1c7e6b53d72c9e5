"""The quotas of clients of this node, as the metadata has them, and what clients have used.

Without a quota for bytes or requests nothing is measured: `on_metering` tells the dispatcher of clients when to begin and
when to stop (KIP-13, KIP-55, KIP-124, KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from .connection_rates import ConnectionRates
from .precedence import Find
from .sensors import BucketSensor, RateSensor, Sensors

if TYPE_CHECKING:
    from ...metadata.image import QuotaEntity
    from ..config.broker_config import BrokerConfig

Quotas = Mapping["QuotaEntity", Mapping[str, float]]
#: By entity the keys that changed; their values do not matter here.
Changes = Mapping["QuotaEntity", Mapping[str, float | None]]

#: The quotas for which every request of a client is looked at.
_METERED = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
#: A percentage of the event loop's time, which is the broker's: a nanosecond in a second.
PERCENT_PER_NS = 100 / 1e9
_NOTHING: Mapping[str, float] = {}


class ClientQuotas:
    """The quotas of a node and the sensors of its clients."""

    def __init__(self, config: BrokerConfig) -> None:
        windows: int = config.get("quota.window.num")
        window_ms: int = 1000 * config.get("quota.window.size.seconds")
        #: The quota of bytes fetched is exceeded by no single answer: what all windows but one may hold, in seconds.
        self._whole_windows_s = (windows - 1) * window_ms / 1000
        #: A throttle by time spent, and by new connections, is at most so long.
        self.longest_pause_ms = window_ms
        mutation_windows: int = config.get("controller.quota.window.num")
        mutation_window_ms = 1000 * config.get("controller.quota.window.size.seconds")

        def rates() -> RateSensor:
            return RateSensor(windows, window_ms)

        self.produced = Sensors(self._finder(PRODUCER_BYTE_RATE), rates)
        self.fetched = Sensors(self._finder(CONSUMER_BYTE_RATE), rates)
        self.requests = Sensors(self._finder(REQUEST_PERCENTAGE), rates)
        self.mutations = Sensors(
            self._finder(CONTROLLER_MUTATION_RATE), lambda: BucketSensor(mutation_windows, mutation_window_ms)
        )
        self.connections = ConnectionRates(rates, self.longest_pause_ms)
        #: Called with True when requests are to be metered, and with False when they no longer are.
        self.on_metering: Callable[[bool], None] = lambda on: None
        self._quotas: Quotas = {}
        #: By key, the entities that have a quota.
        self._counts: Counter[str] = Counter()
        self._is_metering = False

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
        for sensors in (self.produced, self.fetched, self.requests):
            sensors.forget_quotas()
        self.mutations.forget_quotas()
        is_metering = any(self._counts[key] for key in _METERED)
        if is_metering != self._is_metering:
            self._is_metering = is_metering
            self.on_metering(is_metering)

    def most_fetched_bytes(self, user: str, client_id: str, now_ms: int) -> float:
        """Returns how much a client may fetch at once without a throttle after a pause; infinite without a quota."""
        sensor = self.fetched.of(user, client_id, now_ms)
        return float("inf") if sensor is None else sensor.bound * self._whole_windows_s

    def request_throttle_ms(self, user: str, client_id: str, spent_ns: int, now_ms: int) -> int:
        """Records the time that a request took. Returns the throttle time in ms."""
        sensor = self.requests.of(user, client_id, now_ms)
        if sensor is None:
            return 0
        return min(sensor.record(spent_ns * PERCENT_PER_NS, now_ms), self.longest_pause_ms)

    def _finder(self, key: str) -> Find:
        def find(entity: QuotaEntity) -> float | None:
            return self._quotas.get(entity, _NOTHING).get(key)

        return find
