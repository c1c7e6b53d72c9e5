"""Chooses the replica that a consumer reads from (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...replication.preferred_replica import candidates, nearest
from ..controller.cluster_view import ClusterView

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.metadata_cache import MetadataCache

#: The value of `replica.selector.class` that has consumers read from replicas in their rack. Kafka has no other one.
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaSelector:
    """Finds replicas in the rack of a consumer, if the broker is configured to."""

    def __init__(self, config: BrokerConfig, node_id: int, metadata: MetadataCache) -> None:
        #: Whether responses name a replica in the consumer's rack; else consumers read from leaders.
        self.is_rack_aware: bool = config.get("replica.selector.class") == RACK_AWARE_SELECTOR
        self._metadata = metadata
        self._node_id = node_id

    def nearer_replica(self, rack: str, listener: str, hosted: HostedPartition, fetch_offset: int) -> int:
        """Returns the replica in the consumer's rack that it may read from; NO_REPLICA (-1) when there is none, or it is the
        leader.
        """
        racks = {broker.id: broker.rack for broker, _ in ClusterView(self._metadata.image, listener).alive_brokers()}
        found = candidates(hosted.role, fetch_offset)
        return nearest(found, rack, racks.get(self._node_id), racks)
