"""The throttle of replication at a leader, or at a follower (KIP-73).

`ReplicationQuota` compares the rate of the replicas that a topic's configuration lists with that of the broker's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs.key import FOREVER
from ...metadata.image import TOPIC_RESOURCE
from ..access.quotas.rates import SimpleRate

if TYPE_CHECKING:
    from ...metadata.configs.key_types import IntegerKey
    from ..config.broker_config import BrokerConfig
    from ..partitions.replica import Replica
    from ..runtime.clock import Clock
    from ..runtime.metadata_cache import MetadataCache

ALL_REPLICAS = "*"

LEADERS: tuple[IntegerKey, str] = ("leader.replication.throttled.rate", "leader.replication.throttled.replicas")
FOLLOWERS: tuple[IntegerKey, str] = ("follower.replication.throttled.rate", "follower.replication.throttled.replicas")
#: Topics whose lists are kept as sets; only topics under reassignment have one. A list is parsed when it has changed.
MAX_REMEMBERED_TOPICS = 10_000


def is_listed(replicas: Collection[str], index: int, broker_id: int) -> bool:
    """Returns whether a topic's list of throttled replicas (`partition:broker`, or `*`) contains this one."""
    return ALL_REPLICAS in replicas or f"{index}:{broker_id}" in replicas


class ReplicationQuota:
    """The quota of one direction. `keys`: LEADERS or FOLLOWERS.

    It keeps to the rate of the broker's configuration, for the replicas that the topic's configuration lists, while
    they are not in the ISR. Without a rate it costs nothing.
    """

    def __init__(
        self, node_id: int, config: BrokerConfig, clock: Clock, metadata: MetadataCache, keys: tuple[IntegerKey, str]
    ) -> None:
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._metadata = metadata
        self._rate_key, self._replicas_key = keys
        seconds = config.get("replication.quota.window.size.seconds")
        self._rate = SimpleRate(config.get("replication.quota.window.num"), seconds * 1000)
        #: The replicas that a topic lists, with the text that they were parsed from.
        self._listed: dict[str, tuple[str, frozenset[str]]] = {}

    @property
    def is_on(self) -> bool:
        return self._config.get(self._rate_key) < FOREVER

    def throttles(self, replica: Replica) -> bool:
        """Returns True if the topic's configuration lists the replica as throttled."""
        text = self._metadata.image.config(TOPIC_RESOURCE, replica.topic).get(self._replicas_key, "")
        if not text:
            return False
        known = self._listed.get(replica.topic)
        if known is None or known[0] != text:
            if len(self._listed) >= MAX_REMEMBERED_TOPICS:
                self._listed.clear()
            known = self._listed[replica.topic] = text, frozenset(name.strip() for name in text.split(","))
        return is_listed(known[1], replica.index, self._node_id)

    def is_throttled(self, replica: Replica, follower: int) -> bool:
        """Returns True if `follower` has to wait: it is throttled, not in the ISR, and the quota is exceeded."""
        return self.is_on and follower not in replica.role.isr and self.throttles(replica) and self._is_exceeded

    @property
    def _is_exceeded(self) -> bool:
        return self._rate.measure(self._clock.now_ms())[0] > self._config.get(self._rate_key)

    def record(self, replica: Replica, size: int) -> None:
        if self.is_on and self.throttles(replica):
            self._rate.record(size, self._clock.now_ms())


class ReplicationQuotas(NamedTuple):
    """The quotas of leaders that send, and of followers that fetch."""

    leaders: ReplicationQuota
    followers: ReplicationQuota
