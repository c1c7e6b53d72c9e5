"""The image as a client sees it through one listener: the brokers, the leaders, and the replicas that are away."""

from __future__ import annotations

from collections.abc import Iterator

from ...metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionImage


class ClusterView:
    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.image = image
        self._listener = listener
        self._brokers = image.cluster.brokers
        #: By replicas and their directories: many partitions have the same.
        self._offline: dict[tuple[tuple[int, ...], tuple[bytes, ...]], list[int]] = {}

    def alive_brokers(self) -> Iterator[tuple[BrokerImage, Endpoint]]:
        """Returns the brokers that are not fenced and have the listener, by id."""
        return ((broker, endpoint) for broker, endpoint in self.brokers() if not broker.fenced)

    def brokers(self) -> Iterator[tuple[BrokerImage, Endpoint]]:
        """Returns the brokers that have the listener, by id."""
        for _, broker in sorted(self._brokers.items()):
            endpoint = broker.listeners.get(self._listener)
            if endpoint is not None:
                yield broker, endpoint

    def controller_id(self) -> int:
        """Returns the id of any unfenced broker: clients send requests for the controller to it, and it forwards them
        (KIP-590).
        """
        return next((broker.id for broker, _ in self.alive_brokers()), -1)

    def is_registered(self, broker_id: int) -> bool:
        return broker_id in self._brokers

    def is_reachable(self, broker_id: int) -> bool:
        """Returns True if the broker has the listener."""
        broker = self._brokers.get(broker_id)
        return broker is not None and self._listener in broker.listeners

    def is_alive(self, broker_id: int) -> bool:
        return self.is_reachable(broker_id) and not self._brokers[broker_id].fenced

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        key = partition.replicas, partition.directories
        offline = self._offline.get(key)
        if offline is None:
            offline = [broker_id for broker_id, directory in zip(*key) if not self._has_online(broker_id, directory)]
            self._offline[key] = offline
        return offline

    def _has_online(self, broker_id: int, directory: bytes) -> bool:
        return self.is_alive(broker_id) and self._brokers[broker_id].has_online_directory(directory)
