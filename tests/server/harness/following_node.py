"""A node that follows images of the metadata. Its partitions are real; the parts that make them and give them their roles
note their calls and do no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage, PartitionImage, TopicPartition
from odradek.protocol.schema import Message
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.partitions.partition_changes import PartitionChanges
from odradek.server.partitions.reconfiguration import Reconfiguration
from odradek.server.partitions.replica_creation import ReplicaCreation
from odradek.server.partitions.replica_loading import ReplicaLoading
from odradek.server.partitions.roles import RoleAssignment

from tests.server.harness.hosted import Hosted
from tests.server.harness.images import topic_id_of
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_partitions import NotedPartitions

OWN = 0

Calls = list[tuple[Any, ...]]


class ScriptedCreation(ReplicaCreation):
    """Makes replicas in the folder, but for those that are `unmade`, for want of a directory, or `failing`, by a bug."""

    def __init__(self, path: Path, partitions: NotedPartitions, calls: Calls) -> None:
        self.unmade: set[TopicPartition] = set()
        self.failing: set[TopicPartition] = set()
        self._path, self._here, self._calls = path, partitions, calls

    def begin_image(self) -> None:
        self._calls.append(("begin",))

    def forget_topic(self, name: str) -> None:
        self._calls.append(("forget", name))

    def create(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> HostedPartition | None:
        assert topic_id == topic_id_of(topic) and OWN in registration.replicas
        assert self._here.get((topic, index)) is None
        if (topic, index) in self.failing:
            raise ZeroDivisionError("a bug")
        if (topic, index) in self.unmade:
            return None
        hosted = Hosted(self._path, OWN, topic=topic, topic_id=topic_id, index=index)
        self._here.add(hosted)
        self._calls.append(("made", hosted.name))
        return hosted


class NotedRoles(RoleAssignment):
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def assign(self, image: MetadataImage, hosted: HostedPartition, registration: PartitionImage) -> None:
        self._calls.append(("role", hosted.name, registration.leader))


class NotedReconfiguration(Reconfiguration):
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def topic_changed(self, image: MetadataImage, topic: str) -> None:
        self._calls.append(("configured", topic))

    def stop(self) -> None:
        self._calls.append(("stop",))


class NotedLoading(ReplicaLoading):
    """The loading of replicas from no directory."""

    def __init__(self, partitions: NotedPartitions, calls: Calls) -> None:
        node, opening = node_of(), None
        super().__init__(OWN, node.clock, partitions, opening, node.pools.disk, lambda: 1, lambda: True)  # type: ignore[arg-type]
        self._calls = calls

    @property
    def is_paused(self) -> bool:
        return not self._may_apply.is_set()

    def wait_for(self, topic: str, index: int) -> None:
        """Has a replica wait until it is opened."""
        self._waiting[topic, index] = []

    def load(self, image: MetadataImage) -> Iterator[None]:
        self._calls.append(("load", sorted(image.topics.by_name)))
        yield
        yield from super().load(image)


class FollowingNode:
    """A broker that follows images. `calls` has what it did to its partitions."""

    def __init__(self, path: Path, *, has_begun: bool = True) -> None:
        self.path = path
        self.calls: Calls = []
        node = node_of({"node.id": str(OWN)})
        self.metadata = node.metadata
        self.partitions = NotedPartitions(metadata=node.metadata)
        self.partitions.on_removed.append(lambda hosted: self.calls.append(("removed", hosted.name)))
        self.loading = NotedLoading(self.partitions, self.calls)
        self.loading.has_begun = has_begun
        self.creation = ScriptedCreation(path, self.partitions, self.calls)
        self.image = self.metadata.image
        self.changes = PartitionChanges(
            OWN,
            self.metadata,
            self.partitions,
            self.creation,
            self.loading,
            NotedRoles(self.calls),
            NotedReconfiguration(self.calls),
        )

    @property
    def here(self) -> list[str]:
        """The names of the partitions here."""
        return [hosted.name for hosted in self.partitions]

    def host(self, topic: str, index: int) -> None:
        """Adds a replica."""
        self.partitions.add(Hosted(self.path, OWN, topic=topic, topic_id=topic_id_of(topic), index=index))

    def follow(self, *records: Message) -> Calls:
        """Follows the image that the records lead to, and returns the calls. Checks that the rest waits meanwhile."""
        self.calls.clear()
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        image = delta.apply(self.image.offset + 1, 1, 0)
        for _ in self.changes.steps(delta, image):
            assert self.partitions.pending._is_paused and self.loading.is_paused
        assert not self.partitions.pending._is_paused and not self.loading.is_paused
        self.image = self.metadata.image = image
        assert self.calls[0] == ("begin",)
        return self.calls[1:]
