"""Changes that records make to topics and partitions."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from immutables import Map

from ..protocol.node_ids import LEADER_UNCHANGED
from .image import MIGRATING_DIRECTORY, PartitionImage, TopicImage, TopicsImage
from .internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from ..protocol.internal.cluster_metadata import (
        ClearElrRecord,
        PartitionChangeRecord,
        PartitionRecord,
        RemoveTopicRecord,
        TopicRecord,
    )

_RECOVERY_STATE_UNCHANGED = -1
_NO_PARTITIONS: Map[int, PartitionImage] = Map()
#: Enough for the sets of a few dozen brokers; with more, the most recently used are kept.
_SHARED_SETS = 16_384
V = TypeVar("V")


class TopicDelta:
    """The changes of one topic. `before`: the old topic (without partitions if it is new). `changed`: new or changed
    partitions.
    """

    __slots__ = ("_applied", "_unapplied", "before", "changed")

    def __init__(self, before: TopicImage) -> None:
        self.before = before
        self.changed: dict[int, PartitionImage] = {}
        self._applied = before
        self._unapplied: dict[int, PartitionImage] = {}

    def change(self, index: int, partition: PartitionImage) -> None:
        self.changed[index] = self._unapplied[index] = partition

    def partition(self, index: int) -> PartitionImage:
        return self.changed[index] if index in self.changed else self.before.partitions[index]

    def clear_elr(self) -> None:
        for index in {*self.before.partitions, *self.changed}:
            partition = self.partition(index)
            if partition.elr or partition.last_known_elr:
                epoch = partition.partition_epoch + 1
                self.change(index, partition._replace(elr=(), last_known_elr=(), partition_epoch=epoch))

    def apply(self) -> TopicImage:
        if self._unapplied:
            self._applied = self._applied._replace(partitions=self._applied.partitions.update(self._unapplied))
            self._unapplied = {}
        return self._applied


class TopicsDelta:
    """The changes of all topics. `changed`: new or changed topics, by id.

    `created` and `deleted` contain only the net result. Changes are applied once: a large delta is applied step by
    step while it grows, and the last step is cheap.
    """

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed: dict[bytes, TopicDelta] = {}
        self.created: dict[bytes, str] = {}
        self.deleted: dict[bytes, TopicImage] = {}
        self._applied = image
        #: Topics that changed or were deleted since `applied`.
        self._unapplied: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self.changed or self.deleted)

    def has_internal(self) -> bool:
        """Returns whether a topic of coordinators has changed, come or gone."""
        for topics in (self.image, self.apply()):
            for name in INTERNAL_TOPICS:
                topic = topics.by_name.get(name)
                if topic is not None and (topic.id in self.changed or topic.id in self.deleted):
                    return True
        return False

    def replay_topic(self, record: TopicRecord) -> None:
        self.changed[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id, _NO_PARTITIONS))
        self._unapplied.add(record.topic_id)
        self.created[record.topic_id] = record.name

    def replay_partition(self, record: PartitionRecord) -> None:
        self._topic(record.topic_id).change(record.partition_id, partition_from_record(record))

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        topic.change(record.partition_id, merged(topic.partition(record.partition_id), record))

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Clears the ELR of a topic; an empty name means every topic."""
        if record.topic_name:
            self._topic(self._id_of(record.topic_name)).clear_elr()
            return
        for topic_id in {*self.image.by_id, *self.created} - self.deleted.keys():
            self._topic(topic_id).clear_elr()

    def replay_remove(self, record: RemoveTopicRecord) -> str:
        """Removes a topic and returns its name. A topic created and removed in one delta leaves no trace."""
        delta = self.changed.pop(record.topic_id, None)
        self._unapplied.add(record.topic_id)
        self.created.pop(record.topic_id, None)
        before = self.image.by_id.get(record.topic_id)
        if before is not None:
            self.deleted[record.topic_id] = before
            return before.name
        if delta is None:
            raise KeyError(f"RemoveTopicRecord for a topic that is not there: {record.topic_id.hex()}")
        return delta.before.name

    def apply(self) -> TopicsImage:
        if not self._unapplied:
            return self._applied
        by_id, by_name = self._applied.by_id.mutate(), self._applied.by_name.mutate()
        for topic_id in self._unapplied:
            gone = by_id.pop(topic_id, None) if topic_id not in self.changed else None
            if gone is not None:
                del by_name[gone.name]
        for topic_id in self._unapplied & self.changed.keys():
            topic = self.changed[topic_id].apply()
            by_id[topic_id] = topic
            by_name[topic.name] = topic
        self._applied, self._unapplied = TopicsImage(by_name.finish(), by_id.finish()), set()
        return self._applied

    def _topic(self, topic_id: bytes) -> TopicDelta:
        """Returns the delta of a topic that a record changes."""
        delta = self.changed.get(topic_id)
        if delta is None:
            assert topic_id not in self.deleted, "a record changes a topic that is deleted"
            delta = self.changed[topic_id] = TopicDelta(self.image.by_id[topic_id])
        self._unapplied.add(topic_id)
        return delta

    def _id_of(self, name: str) -> bytes:
        for topic_id, created in self.created.items():
            if created == name:
                return topic_id
        return self.image.by_name[name].id


def partition_from_record(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        _shared(tuple(record.replicas)),
        _shared(tuple(record.isr)),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        _directories(record.directories, len(record.replicas)),
        record.leader_recovery_state,
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
    )


def merged(partition: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """Returns the changed partition. Any change raises the partition epoch; one with a leader, even the same, the
    leader epoch.
    """
    replicas = _new_or(change.replicas, partition.replicas)
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if change.leader != LEADER_UNCHANGED:
        leader, leader_epoch = change.leader, leader_epoch + 1
    recovery_state = change.leader_recovery_state
    if recovery_state == _RECOVERY_STATE_UNCHANGED:
        recovery_state = partition.leader_recovery_state
    return PartitionImage(
        replicas,
        _new_or(change.isr, partition.isr),
        leader,
        leader_epoch,
        partition.partition_epoch + 1,
        _directories(partition.directories if change.directories is None else change.directories, len(replicas)),
        recovery_state,
        _new_or(change.eligible_leader_replicas, partition.elr),
        _new_or(change.last_known_elr, partition.last_known_elr),
        _new_or(change.adding_replicas, partition.adding_replicas),
        _new_or(change.removing_replicas, partition.removing_replicas),
    )


def _new_or(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else _shared(tuple(new))


@lru_cache(_SHARED_SETS)
def _shared(value: tuple[V, ...]) -> tuple[V, ...]:
    """Returns an equal shared tuple. Many partitions share replica sets and directories, which cuts an image to a
    fraction of its bytes.
    """
    return value


def _directories(directories: list[bytes] | tuple[bytes, ...], replicas: int) -> tuple[bytes, ...]:
    """Returns the directories of the replicas. Partitions older than KIP-858 have none."""
    if directories.count(MIGRATING_DIRECTORY) == len(directories):
        return (MIGRATING_DIRECTORY,) * replicas
    assert len(directories) == replicas, "a partition names a directory for each replica or for none"
    return _shared(tuple(directories))
