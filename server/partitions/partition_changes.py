"""Partitions follow the metadata: the published image decides which are made, their roles and which are removed.

The first image opens the replicas that the log directories hold (`replica_loading.py`). A replica that the metadata does
not know as this broker's is put aside under a `-stray` name, never deleted; files named `-delete` go in the background.
From then on each delta is followed: new replicas go to the log directory that the metadata names, or to the one with the
fewest partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE
from ...metadata.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage, PartitionImage, TopicImage, TopicPartition
    from ..runtime.metadata_cache import MetadataCache
    from .partitions import Partitions
    from .reconfiguration import Reconfiguration
    from .replica_creation import ReplicaCreation
    from .replica_loading import ReplicaLoading
    from .roles import RoleAssignment


class _Changed(NamedTuple):
    """A topic with those of its partitions that are new or changed."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage]


class PartitionChanges:
    """Applies deltas of the metadata to the partitions here."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        partitions: Partitions,
        creation: ReplicaCreation,
        loading: ReplicaLoading,
        roles: RoleAssignment,
        reconfiguration: Reconfiguration,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._partitions = partitions
        self._creation = creation
        self._loading = loading
        self._roles = roles
        self._reconfiguration = reconfiguration
        partitions.pending.make = self._apply_contained
        loading.apply = self._apply_loaded

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Applies `delta`, which led to `image`, in steps; `image` is published after the last one. The changes of
        internal topics are in that last step, since their coordinators have to change with them.
        """
        with self._partitions.pending.paused(), self._loading.paused(image):
            yield from self._steps(delta, image)

    def stop(self) -> None:
        self._reconfiguration.stop()

    def _steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        self._creation.begin_image()
        if not self._loading.has_begun:
            yield from self._loading.load(image)
            topics = [_Changed(topic.name, topic.id, topic.partitions) for topic in image.topics.by_name.values()]
        else:
            topics = [_Changed(one.before.name, id_, one.changed) for id_, one in delta.topics.changed.items()]
        for is_last in (False, True):
            for step in self._change(image, delta.topics.deleted.values(), topics, internal=is_last):
                if not is_last:
                    yield step
        for resource_type, name in delta.configs:
            if resource_type == TOPIC_RESOURCE:
                self._reconfiguration.topic_changed(image, name)

    def _change(
        self, image: MetadataImage, deleted: Iterable[TopicImage], changed: Iterable[_Changed], *, internal: bool
    ) -> Iterator[None]:
        for gone in deleted:
            if (gone.name in INTERNAL_TOPICS) is internal:
                yield from self._delete_topic(gone.name, gone.partitions)
        for topic in changed:
            if (topic.name in INTERNAL_TOPICS) is internal:
                yield from self._apply_topic(image, topic)

    def _apply_topic(self, image: MetadataImage, topic: _Changed) -> Iterator[None]:
        """Applies the partitions led here first, since others wait for them. Those that a start opens later are passed
        over, all of a topic in one step.
        """
        passed_over, node_id, name = False, self._node_id, topic.name
        waiting, get = self._loading.waiting, self._partitions.get
        for leads in (True, False):
            for index, registration in topic.partitions.items():
                if (registration.leader == node_id) is not leads:
                    continue
                if waiting and (name, index) in waiting and get((name, index)) is None:
                    passed_over = True
                    continue
                self._apply_contained(image, name, topic.id, index, registration)
                yield
        if passed_over:
            yield

    def _apply_contained(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> None:
        """If one partition cannot follow the metadata, the others still do, and this one is tried again. At the start it
        is a reason not to start.
        """
        try:
            self._apply_partition(image, topic, topic_id, index, registration)
        except Exception as failure:
            if self._metadata.image is EMPTY_IMAGE:
                raise
            self._partitions.pending.add_failed((topic, index), failure)

    def _apply_loaded(self, image: MetadataImage, key: TopicPartition) -> None:
        """Gives a replica that a start has opened late its role."""
        topic = image.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if topic is not None and registration is not None:
            self._apply_contained(image, topic.name, topic.id, key[1], registration)

    def _apply_partition(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> None:
        hosted = self._partitions.get((topic, index))
        if self._node_id not in registration.replicas:
            if hosted is not None:
                self._partitions.remove(hosted)
            return
        if hosted is None and (topic, index) in self._loading.waiting:
            return
        if hosted is None:
            hosted = self._creation.create(image, topic, topic_id, index, registration)
            if hosted is None:
                return
        self._roles.assign(image, hosted, registration)
        self._partitions.pending.made(topic, index)

    def _delete_topic(self, name: str, indexes: Iterable[int]) -> Iterator[None]:
        for index in indexes:
            hosted = self._partitions.get((name, index))
            if hosted is not None:
                self._partitions.remove(hosted)
                yield
        self._creation.forget_topic(name)
