"""The quota of changes of a client to topics: partitions created and deleted, counted at the active controller
(KIP-599).

Versions of a request that know THROTTLING_QUOTA_EXCEEDED are held strictly: no change is made while the quota is
exceeded, and one that exceeds it is made whole. Of older versions every change is made, and the client is
throttled.
"""

from __future__ import annotations

from .client_quotas import ClientQuotas
from .quota_callback import QuotaKind
from .sensors import BucketSensor


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
