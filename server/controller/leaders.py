"""Leaders of partitions and their endpoints, for responses that redirect a client (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import NO_LEADER
from ...protocol.errors import ErrorCode
from ..config.endpoint import Endpoint as ClientEndpoint

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, TopicImage
    from ..partitions.partitions import Partitions
    from ..runtime.metadata_cache import MetadataCache


class ReachedBroker(NamedTuple):
    """A broker as one listener's clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None


class Leader(NamedTuple):
    """`id` and `epoch` are -1 without a known leader; `node` is None where its listener is not."""

    id: int
    epoch: int
    node: ReachedBroker | None


class Leaders:
    """Finds the leader of a partition, and the endpoint of a broker, in the published image and in the partitions that this
    broker hosts.
    """

    def __init__(
        self, metadata: MetadataCache, partitions: Partitions, *, inter_broker_listener: str, node_id: int
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._inter_broker_listener = inter_broker_listener
        self._node_id = node_id

    def current_leader(self, listener: str, topic: str | bytes, index: int) -> Leader:
        """Returns the leader of a partition, by its topic's name or id, with its endpoint on `listener`. A replica on this
        broker has it first: waiting requests are answered before the image that names the new leader is published.
        """
        if isinstance(topic, bytes):
            found = self._metadata.image.topic_by_id(topic)
            topic = found.name if found is not None else ""
        hosted = self._partitions.get((topic, index))
        if hosted is not None:
            role = hosted.role
            return Leader(role.leader, role.leader_epoch, self._node(listener, role.leader))
        partition = self._metadata.image.partition(topic, index)
        if partition is None:
            return Leader(NO_LEADER, -1, None)
        return Leader(partition.leader, partition.leader_epoch, self._node(listener, partition.leader))

    def _node(self, listener: str, broker_id: int) -> ReachedBroker | None:
        broker = self._metadata.image.broker(broker_id)
        endpoint = broker.listeners.get(listener) if broker is not None else None
        if broker is None or endpoint is None:
            return None
        return ReachedBroker(broker_id, endpoint.host, endpoint.port, broker.rack)

    def broker_endpoint(self, broker_id: int) -> ClientEndpoint | None:
        """Returns the inter-broker endpoint of another broker; None when it is not known."""
        name = self._inter_broker_listener
        found = self._metadata.image.broker(broker_id)
        endpoint = found.listeners.get(name) if found is not None else None
        return ClientEndpoint(name, endpoint.host, endpoint.port) if endpoint is not None else None

    def other_leader(self, topic: str, index: int) -> ClientEndpoint | None:
        """Returns the inter-broker endpoint of a partition's leader; None when this broker leads it, or no broker does."""
        partition = self._metadata.image.partition(topic, index)
        if partition is None or partition.leader in (NO_LEADER, self._node_id):
            return None
        return self.broker_endpoint(partition.leader)

    def absent_error(self, topic: str | bytes, index: int) -> int:
        """Returns the error for a partition, by its topic's name or id, that this broker does not host: it is hosted on
        other brokers, it does not exist, there is no room for it here, or it is not open yet. The last is opened next.
        """
        found = _topic_of(self._metadata.image, topic)
        # A topic may be deleted by an image that is being published: its replicas go before the image is that of all.
        if found is None or _topic_of(self._metadata.newest, topic) is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (found.name, index) in self._partitions.pending:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if index not in found.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._partitions.want((found.name, index))
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _topic_of(image: MetadataImage, topic: str | bytes) -> TopicImage | None:
    return image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
