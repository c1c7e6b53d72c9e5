"""The throttle of replication at a leader, or at a follower (KIP-73): both keep to the rate that the broker's key says, for
those replicas that the topics' key lists, while they are not in sync. Without a rate nothing is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.configs.key import FOREVER
from ...metadata.image import TOPIC_RESOURCE
from ...replication.throttle import ReplicationRate, is_listed

if TYPE_CHECKING:
    from ..node import Node
    from ..partitions.replica import Replica

LEADERS = ("leader.replication.throttled.rate", "leader.replication.throttled.replicas")
FOLLOWERS = ("follower.replication.throttled.rate", "follower.replication.throttled.replicas")
#: Topics whose lists are kept as sets; only those that move have one. A list is read once, not for each fetch.
MAX_REMEMBERED_TOPICS = 10_000


class ReplicationQuota:
    """`keys`: LEADERS or FOLLOWERS."""

    def __init__(self, broker: Node, keys: tuple[str, str]) -> None:
        self._broker = broker
        self._rate_key, self._replicas_key = keys
        seconds: int = broker.config.get("replication.quota.window.size.seconds")
        self._rate = ReplicationRate(broker.config.get("replication.quota.window.num"), seconds * 1000)
        #: The replicas that a topic lists, with the text that they were read from.
        self._listed: dict[str, tuple[str, frozenset[str]]] = {}

    @property
    def is_on(self) -> bool:
        limit: int = self._broker.config.get(self._rate_key)
        return limit < FOREVER

    def throttles(self, replica: Replica) -> bool:
        """Returns True if the topic's configuration lists the replica as throttled."""
        text = self._broker.image.config(TOPIC_RESOURCE, replica.topic).get(self._replicas_key, "")
        if not text:
            return False
        known = self._listed.get(replica.topic)
        if known is None or known[0] != text:
            if len(self._listed) >= MAX_REMEMBERED_TOPICS:
                self._listed.clear()
            known = self._listed[replica.topic] = text, frozenset(name.strip() for name in text.split(","))
        return is_listed(known[1], replica.index, self._broker.node_id)

    def holds_up(self, replica: Replica, follower: int) -> bool:
        """Returns True if `follower` has to wait: it is throttled, not in the ISR, and the quota is exceeded."""
        return self.is_on and follower not in replica.role.isr and self.throttles(replica) and self._is_exceeded

    @property
    def _is_exceeded(self) -> bool:
        limit: int = self._broker.config.get(self._rate_key)
        return self._rate.bytes_per_second(self._broker.now_ms()) > limit

    def record(self, replica: Replica, size: int) -> None:
        if self.is_on and self.throttles(replica):
            self._rate.record(size, self._broker.now_ms())
