"""Replays records into a delta and applies it to the image.

- `Part`: a part of the metadata that can change; each subsystem of a node declares which it follows.
- `TopicsDelta`, `ClusterDelta`: changes of topics and of registrations.
- `MetadataDelta`: all changes since an image. Time and memory grow with the changes, not the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from sys import intern
from typing import Any, Literal, TypeVar, get_args

from immutables import Map

from ..protocol.internal import cluster_metadata as records
from ..protocol.internal.cluster_metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from ..protocol.schema import Message
from .image import (
    EMPTY_IMAGE,
    INTERNAL_TOPICS,
    MIGRATING_DIRECTORY,
    TOPIC_RESOURCE,
    AclImage,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    ControllerImage,
    DelegationTokenImage,
    Endpoint,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ScramCredential,
    TopicImage,
    TopicsImage,
)

#: `topics`: of any change of a topic. `internal_topics` and `deleted_topics` are among them: a topic of coordinators has
#: changed, come or gone; any topic has gone.
Part = Literal[
    "topics",
    "internal_topics",
    "deleted_topics",
    "cluster",
    "features",
    "configs",
    "client_quotas",
    "acls",
    "scram",
    "delegation_tokens",
]
PARTS: frozenset[Part] = frozenset(get_args(Part))


# ---- topics and partitions
#
# Changes that records make to topics and partitions.


_LEADER_UNCHANGED = -2
_RECOVERY_STATE_UNCHANGED = -1
_NO_PARTITIONS: Map[int, PartitionImage] = Map()
#: Enough for the sets of a few dozen brokers; with more, the most recently used are kept.
_SHARED_SETS = 16_384


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
        #: Topics that changed or were deleted since `_applied`.
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
    if change.leader != _LEADER_UNCHANGED:
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


K = TypeVar("K")
V = TypeVar("V")
Outer = TypeVar("Outer")


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


# ---- registrations
#
# Changes that records make to the registrations of brokers and controllers.


class ClusterDelta:
    """The changed registrations by node id: an image if new or changed, None if removed."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.brokers: dict[int, BrokerImage | None] = {}
        self.controllers: dict[int, ControllerImage | None] = {}

    def __bool__(self) -> bool:
        return bool(self.brokers or self.controllers)

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = broker_from_record(record)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = None

    def replay_fencing(self, broker_id: int, epoch: int, fenced: bool) -> None:
        self.brokers[broker_id] = self._broker(broker_id, epoch)._replace(fenced=fenced)

    def replay_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Replays a change record. In `fenced`, 1 fences, -1 unfences and 0 leaves it. Controlled shutdown can only be
        entered.
        """
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = broker._replace(
            fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=tuple(sorted(record.log_dirs)) if record.log_dirs else broker.directories,
            cordoned_directories=broker.cordoned_directories if cordoned is None else tuple(sorted(cordoned)),
        )

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            _listeners(record.end_points),
            _features(record.features),
        )

    def replay_unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self.controllers[record.controller_id] = None

    def apply(self) -> ClusterImage:
        return ClusterImage(
            _applied(self.image.brokers, self.brokers), _applied(self.image.controllers, self.controllers)
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.brokers[broker_id] if broker_id in self.brokers else self.image.brokers.get(broker_id)
        assert broker is not None, f"a record changes broker {broker_id}, which is not registered"
        assert broker.epoch == epoch, f"a record for epoch {epoch} of broker {broker_id}, whose epoch is {broker.epoch}"
        return broker


def broker_from_record(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        record.broker_id,
        record.broker_epoch,
        record.incarnation_id,
        _listeners(record.end_points),
        _features(record.features),
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
        record.is_migrating_zk_broker,
        tuple(sorted(record.log_dirs)),
        tuple(sorted(record.cordoned_log_dirs or ())),
    )


def _listeners(endpoints: Sequence[BrokerEndpoint | ControllerEndpoint]) -> Map[str, Endpoint]:
    return Map({e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints})


def _features(features: Sequence[BrokerFeature | ControllerFeature]) -> Map[str, tuple[int, int]]:
    return Map({f.name: (f.min_supported_version, f.max_supported_version) for f in features})


# ---- the whole delta


class MetadataDelta:
    """The changes since `image`: replay records in order, read the changes, call `apply()` for the next image.

    In the small maps (`configs`, `client_quotas`, ...) None means that the entry is removed. A record that is not of
    the metadata log, or that contradicts the image, is a bug or a damaged log: KeyError or AssertionError.
    """

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self.topics = TopicsDelta(image.topics)
        self.cluster = ClusterDelta(image.cluster)
        self.features: dict[str, int] = {}
        self.zk_migration_state: int | None = None
        #: Resource -> key -> value, or None for a removed key.
        self.configs: dict[ConfigResource, dict[str, str | None]] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float | None]] = {}
        self.next_producer_id: int | None = None
        self.acls: dict[bytes, AclImage | None] = {}
        self.scram: dict[tuple[str, int], ScramCredential | None] = {}
        self.delegation_tokens: dict[str, DelegationTokenImage | None] = {}

    def parts(self) -> frozenset[Part]:
        """Returns the parts that have changed."""
        topics = self.topics
        changes: dict[Part, object] = {
            "topics": topics,
            "internal_topics": topics.has_internal(),
            "deleted_topics": topics.deleted,
            "cluster": self.cluster,
            "features": self.features,
            "configs": self.configs,
            "client_quotas": self.client_quotas,
            "acls": self.acls,
            "scram": self.scram,
            "delegation_tokens": self.delegation_tokens,
        }
        return frozenset(compress(changes, changes.values()))

    def replay(self, record: Message) -> None:
        _REPLAY[type(record)](self, record)

    def apply(self, offset: int, epoch: int, last_append_timestamp_ms: int) -> MetadataImage:
        """Returns the image after the record at `offset`, which was appended in `epoch`."""
        image = self.image
        return MetadataImage(
            offset,
            epoch,
            last_append_timestamp_ms,
            self._applied_features(),
            self.cluster.apply() if self.cluster else image.cluster,
            self.topics.apply() if self.topics else image.topics,
            _applied_maps(image.configs, self.configs),
            _applied_maps(image.client_quotas, self.client_quotas),
            image.next_producer_id if self.next_producer_id is None else self.next_producer_id,
            _applied(image.acls, self.acls),
            _applied(image.scram, self.scram),
            _applied(image.delegation_tokens, self.delegation_tokens),
        )

    def replay_remove_topic(self, record: records.RemoveTopicRecord) -> None:
        """Removes a topic and its configuration, for which there are no separate records."""
        name = self.topics.replay_remove(record)
        resource = (TOPIC_RESOURCE, name)
        gone: dict[str, str | None] = dict.fromkeys(self.image.config(*resource))
        self.configs.pop(resource, None)
        if gone:
            self.configs[resource] = gone

    def replay_feature_level(self, record: records.FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level

    def replay_zk_migration_state(self, record: records.ZkMigrationStateRecord) -> None:
        self.zk_migration_state = record.zk_migration_state

    def replay_config(self, record: records.ConfigRecord) -> None:
        self.configs.setdefault((record.resource_type, record.resource_name), {})[record.name] = record.value

    def replay_client_quota(self, record: records.ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        self.client_quotas.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def replay_producer_ids(self, record: records.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def replay_acl(self, record: records.AccessControlEntryRecord) -> None:
        self.acls[record.id] = AclImage(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            intern(record.principal),  # few principals have many rules
            intern(record.host),
            record.operation,
            record.permission_type,
        )

    def replay_remove_acl(self, record: records.RemoveAccessControlEntryRecord) -> None:
        self.acls[record.id] = None

    def replay_scram(self, record: records.UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self.scram[record.name, record.mechanism] = credential

    def replay_remove_scram(self, record: records.RemoveUserScramCredentialRecord) -> None:
        self.scram[record.name, record.mechanism] = None

    def replay_delegation_token(self, record: records.DelegationTokenRecord) -> None:
        self.delegation_tokens[record.token_id] = DelegationTokenImage(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def replay_remove_delegation_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        self.delegation_tokens[record.token_id] = None

    def _applied_features(self) -> FeaturesImage:
        features = self.image.features
        if self.features:
            levels: dict[str, int | None] = {name: level or None for name, level in self.features.items()}
            features = features._replace(finalized=_applied(features.finalized, levels))
        if self.zk_migration_state is not None:
            features = features._replace(zk_migration_state=self.zk_migration_state)
        return features


def _applied(old: Map[K, V], changes: Mapping[K, V | None]) -> Map[K, V]:
    if not changes:
        return old
    new = old.mutate()
    for key, value in changes.items():
        if value is not None:
            new[key] = value
        else:
            new.pop(key, None)
    return new.finish()


_EMPTY_MAP: Map[Any, Any] = Map()


def _applied_maps(old: Map[Outer, Map[K, V]], changes: Mapping[Outer, Mapping[K, V | None]]) -> Map[Outer, Map[K, V]]:
    """Returns a map of maps with the changes applied; empty inner maps are removed."""
    return _applied(old, {key: _applied(old.get(key, _EMPTY_MAP), changed) or None for key, changed in changes.items()})


def _nothing(_delta: MetadataDelta, _record: object) -> None:
    """Ignores a record: NoOpRecord has no content, and transaction records (KIP-868) are handled by readers of the log."""


_REPLAY: dict[type[Message], Callable[[MetadataDelta, Any], None]] = {
    records.TopicRecord: lambda delta, record: delta.topics.replay_topic(record),
    records.PartitionRecord: lambda delta, record: delta.topics.replay_partition(record),
    records.PartitionChangeRecord: lambda delta, record: delta.topics.replay_partition_change(record),
    records.ClearElrRecord: lambda delta, record: delta.topics.replay_clear_elr(record),
    records.RemoveTopicRecord: MetadataDelta.replay_remove_topic,
    records.RegisterBrokerRecord: lambda delta, record: delta.cluster.replay_register_broker(record),
    records.UnregisterBrokerRecord: lambda delta, record: delta.cluster.replay_unregister_broker(record),
    records.BrokerRegistrationChangeRecord: lambda delta, record: delta.cluster.replay_broker_change(record),
    records.FenceBrokerRecord: lambda delta, record: delta.cluster.replay_fencing(record.id, record.epoch, True),
    records.UnfenceBrokerRecord: lambda delta, record: delta.cluster.replay_fencing(record.id, record.epoch, False),
    records.RegisterControllerRecord: lambda delta, record: delta.cluster.replay_register_controller(record),
    records.UnregisterControllerRecord: lambda delta, record: delta.cluster.replay_unregister_controller(record),
    records.FeatureLevelRecord: MetadataDelta.replay_feature_level,
    records.ZkMigrationStateRecord: MetadataDelta.replay_zk_migration_state,
    records.ConfigRecord: MetadataDelta.replay_config,
    records.ClientQuotaRecord: MetadataDelta.replay_client_quota,
    records.ProducerIdsRecord: MetadataDelta.replay_producer_ids,
    records.AccessControlEntryRecord: MetadataDelta.replay_acl,
    records.RemoveAccessControlEntryRecord: MetadataDelta.replay_remove_acl,
    records.UserScramCredentialRecord: MetadataDelta.replay_scram,
    records.RemoveUserScramCredentialRecord: MetadataDelta.replay_remove_scram,
    records.DelegationTokenRecord: MetadataDelta.replay_delegation_token,
    records.RemoveDelegationTokenRecord: MetadataDelta.replay_remove_delegation_token,
    records.NoOpRecord: _nothing,
    records.BeginTransactionRecord: _nothing,
    records.EndTransactionRecord: _nothing,
    records.AbortTransactionRecord: _nothing,
}
