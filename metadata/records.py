"""Metadata records: their framing in `__cluster_metadata`, their transactions, and images as records.

- `encode_record`, `decode_record`: a message as a record value, which is three unsigned varints (frame version,
  record key, record version) and the message.
- `MetadataTransactions`: holds back the records of a transaction until it ends.
- `image_records`: an image as a sequence of records, the content of a metadata snapshot.
- `replacing_records`: the records that lead from one image to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from immutables import Map

from ..protocol.codec import MalformedMessage, decode, lowered_joined_encoder
from ..protocol.internal import cluster_metadata as records
from ..protocol.internal.cluster_metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from ..protocol.schema import Message
from ..protocol.varint import Buffer, encode_varint, varint
from . import metadata_version as levels
from .delta import MetadataDelta
from .image import (
    METADATA_VERSION,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    ControllerImage,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)

# ---- framing

_FRAME_VERSION = 1

#: Record key to message class.
RECORD_CLASSES: dict[int, type[Message]] = {
    value.SCHEMA.key: value
    for value in vars(records).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message and value.SCHEMA.key is not None
}

#: The metadata.version from which a record version above 0 is written, highest first; only for records that have one.
_WRITTEN_VERSIONS: dict[type[Message], tuple[tuple[int, int], ...]] = {
    records.RegisterBrokerRecord: (
        (levels.CORDONED_LOG_DIRS, 4),
        (levels.DIRECTORY_ASSIGNMENT, 3),
        (levels.ZK_MIGRATION, 2),
        (levels.MINIMUM, 1),
    ),
    records.PartitionRecord: ((levels.ELIGIBLE_LEADER_REPLICAS, 2), (levels.DIRECTORY_ASSIGNMENT, 1)),
    records.PartitionChangeRecord: ((levels.ELIGIBLE_LEADER_REPLICAS, 2), (levels.DIRECTORY_ASSIGNMENT, 1)),
}


def record_version(message: Message, metadata_version: int) -> int:
    """Returns the version in which a record is written at this `metadata_version`."""
    if isinstance(message, records.BrokerRegistrationChangeRecord):
        return _change_version(message)
    for level, version in _WRITTEN_VERSIONS.get(type(message), ()):
        if metadata_version >= level:
            return version
    return 0


def _change_version(change: records.BrokerRegistrationChangeRecord) -> int:
    """Returns the lowest version that has the fields in use, as Kafka writes it."""
    if change.cordoned_log_dirs is not None:
        return 3
    if change.log_dirs:
        return 2
    return 1 if change.in_controlled_shutdown else 0


def encode_record(message: Message, metadata_version: int) -> bytes:
    """Encodes the value of a record of the metadata log."""
    kind = type(message), record_version(message, metadata_version)
    frame, encode = _FRAMED.get(kind) or _framed(*kind)
    return frame + encode(message)


#: Class and version of a record -> its frame, and what encodes the message.
_FRAMED: dict[tuple[type[Message], int], tuple[bytes, Callable[[Message], bytes]]] = {}


def _framed(cls: type[Message], version: int) -> tuple[bytes, Callable[[Message], bytes]]:
    key = cls.SCHEMA.key
    assert key is not None, f"{cls.__name__} is not a metadata record"
    frame = bytes((_FRAME_VERSION,)) + encode_varint(key) + encode_varint(version)
    framed = _FRAMED[cls, version] = frame, lowered_joined_encoder(cls, version)
    return framed


def decode_record(value: Buffer) -> Message:
    """Decodes a record value. Raises MalformedMessage if it is not a known metadata record."""
    frame = bytes(value[:_FRAME_BYTES])
    kind = _KINDS.get(frame)
    if kind is None:
        kind = _kind_of(value)
        if kind.end == _FRAME_BYTES:
            _KINDS[frame] = kind
    message, end = decode(kind.cls, kind.version, value, kind.end)
    if end != len(value):
        raise MalformedMessage(f"{len(value) - end} bytes after a {kind.cls.__name__}")
    return message


class _Kind(NamedTuple):
    """A class of records in one version. `end`: of their frame."""

    cls: type[Message]
    version: int
    end: int


#: The bytes of a frame whose varints have one byte each: of all that there are today.
_FRAME_BYTES = 3
#: Such frames that have been met, by their bytes.
_KINDS: dict[bytes, _Kind] = {}


def _kind_of(value: Buffer) -> _Kind:
    try:
        frame_version, position = varint(value, 0)
        key, position = varint(value, position)
        version, position = varint(value, position)
    except (ValueError, IndexError):
        raise MalformedMessage("the frame of a metadata record is cut short") from None
    cls = RECORD_CLASSES.get(key)
    if frame_version != _FRAME_VERSION or cls is None or version not in cls.SCHEMA.versions:
        raise MalformedMessage(f"unknown metadata record: frame {frame_version}, key {key}, version {version}")
    return _Kind(cls, version, position)


# ---- transactions
#
# Transactions of metadata records (KIP-868): records between Begin and End take effect together, or not at all after
# Abort.


class MetadataTransactions:
    """A stage between the log and a delta: holds back the records of a transaction until it ends."""

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def take(self, record: Message) -> Sequence[Message]:
        """Takes the next record of the log. Returns the records to replay now."""
        if isinstance(record, BeginTransactionRecord):
            assert self._held is None, "a transaction of metadata begins inside another"
            self._held = []
            return ()
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            held, self._held = self._held, None
            assert held is not None, "a transaction of metadata ends that has not begun"
            return held if isinstance(record, EndTransactionRecord) else ()
        if self._held is None:
            return (record,)
        self._held.append(record)
        return ()


# ---- images
#
# The order of record types is Kafka's: `metadata.version` first, since it may decide how the rest is read. Within a
# type the records are sorted, so one image always produces the same bytes.


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Yields the records of the image in Kafka's order; replayed on an empty image they rebuild it."""
    yield from _feature_records(image.features)
    yield from _cluster_records(image.cluster)
    for _, topic in sorted(image.topics.by_name.items()):
        yield from _topic_records(topic)
    for (resource_type, name), configs in sorted(image.configs.items(), key=_key):
        for key, value in sorted(configs.items()):
            yield records.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
    yield from _quota_records(image)
    if image.next_producer_id > 0:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from security_records(image)


def partition_record(topic_id: bytes, index: int, partition: PartitionImage) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _feature_records(features: FeaturesImage) -> Iterator[Message]:
    yield records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=features.metadata_version)
    for name, level in sorted(features.finalized.items()):
        if name != METADATA_VERSION:
            yield records.FeatureLevelRecord(name=name, feature_level=level)
    if features.zk_migration_state:
        yield records.ZkMigrationStateRecord(zk_migration_state=features.zk_migration_state)


def _cluster_records(cluster: ClusterImage) -> Iterator[Message]:
    for _, broker in sorted(cluster.brokers.items()):
        yield broker_record(broker)
    for _, controller in sorted(cluster.controllers.items()):
        yield controller_record(controller)


def broker_record(broker: BrokerImage) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            records.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for _, e in sorted(broker.listeners.items())
        ],
        features=[
            records.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(broker.features.items())
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def controller_record(controller: ControllerImage) -> records.RegisterControllerRecord:
    return records.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            records.ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for _, e in sorted(controller.listeners.items())
        ],
        features=[
            records.ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(controller.features.items())
        ],
    )


def _topic_records(topic: TopicImage) -> Iterator[Message]:
    yield records.TopicRecord(name=topic.name, topic_id=topic.id)
    for index, partition in sorted(topic.partitions.items()):
        yield partition_record(topic.id, index, partition)


def _quota_records(image: MetadataImage) -> Iterator[Message]:
    for entity, quotas in sorted(image.client_quotas.items(), key=repr):
        parts = [records.EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity]
        for key, value in sorted(quotas.items()):
            yield records.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def security_records(image: MetadataImage) -> Iterator[Message]:
    for acl_id, acl in sorted(image.acls.items()):
        yield records.AccessControlEntryRecord(id=acl_id, **acl._asdict())
    for (name, mechanism), credential in sorted(image.scram.items()):
        yield records.UserScramCredentialRecord(name=name, mechanism=mechanism, **credential._asdict())
    for token_id, token in sorted(image.delegation_tokens.items()):
        yield records.DelegationTokenRecord(
            token_id=token_id,
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=token.expiration_timestamp,
        )


def _key(item: tuple[ConfigResource, object]) -> ConfigResource:
    return item[0]


# ---- from one image to another
#
# The records that lead from one image to another, independently built one.
#
# A node that is far behind fetches a snapshot, which contains what exists but not what was removed. The other parts
# of the node need the difference as a delta.


K = TypeVar("K", bound=Any)
V = TypeVar("V")
_NOTHING: Map[str, float] = Map()
_APPLIED_TOGETHER = 1024


def replace(delta: MetadataDelta, after: MetadataImage) -> Iterator[None]:
    """Replays into the new `delta` what leads to `after`. Yields once per partition, so that other work can run."""
    for number, record in enumerate(_differences(delta.image, after)):
        if record is not None:
            delta.replay(record)
        if number % _APPLIED_TOGETHER == 0:
            delta.topics.apply()
        yield


def replacing_records(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    """Yields the records that turn `before` into `after`, except for its offset."""
    return (record for record in _differences(before, after) if record is not None)


def _differences(before: MetadataImage, after: MetadataImage) -> Iterator[Message | None]:
    """Yields the records, and None for unchanged entries of large maps."""
    yield from _features(before.features.finalized, after.features.finalized)
    if before.features.zk_migration_state != after.features.zk_migration_state:
        yield records.ZkMigrationStateRecord(zk_migration_state=after.features.zk_migration_state)
    yield from _cluster(before.cluster, after.cluster)
    yield from _topics(before, after)
    yield from _configs(before, after)
    yield from _quotas(before, after)
    if before.next_producer_id != after.next_producer_id:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=after.next_producer_id)
    yield from _security(before, after)


def _gone(before: Map[K, V], after: Map[K, V]) -> list[K]:
    return sorted(key for key in before if key not in after)


def _features(before: Any, after: Any) -> Iterator[Message]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield records.FeatureLevelRecord(name=name, feature_level=after.get(name, 0))


def _cluster(before: ClusterImage, after: ClusterImage) -> Iterator[Message]:
    for id in _gone(before.brokers, after.brokers):
        yield records.UnregisterBrokerRecord(broker_id=id, broker_epoch=before.brokers[id].epoch)
    for id, broker in sorted(after.brokers.items()):
        if before.brokers.get(id) != broker:
            yield broker_record(broker)
    for id in _gone(before.controllers, after.controllers):
        yield records.UnregisterControllerRecord(controller_id=id)
    for id, controller in sorted(after.controllers.items()):
        if before.controllers.get(id) != controller:
            yield controller_record(controller)


def _topics(before: MetadataImage, after: MetadataImage) -> Iterator[Message | None]:
    for topic_id in _gone(before.topics.by_id, after.topics.by_id):
        yield records.RemoveTopicRecord(topic_id=topic_id)
    for topic_id, topic in sorted(after.topics.by_id.items()):
        known = before.topics.by_id.get(topic_id)
        if known is None:
            yield records.TopicRecord(name=topic.name, topic_id=topic_id)
        for index, partition in sorted(topic.partitions.items()):
            is_known = known is not None and known.partitions.get(index) == partition
            yield None if is_known else partition_record(topic_id, index, partition)


def _configs(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    for resource in sorted({*before.configs, *after.configs}):
        old, new = before.config(*resource), after.config(*resource)
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield records.ConfigRecord(
                    resource_type=resource[0], resource_name=resource[1], name=key, value=new.get(key)
                )


def _quotas(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    for entity in sorted({*before.client_quotas, *after.client_quotas}, key=repr):
        old, new = before.client_quotas.get(entity, _NOTHING), after.client_quotas.get(entity, _NOTHING)
        parts = [records.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield records.ClientQuotaRecord(entity=parts, key=key, value=new.get(key, 0.0), remove=key not in new)


def _security(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    for acl_id in _gone(before.acls, after.acls):
        yield records.RemoveAccessControlEntryRecord(id=acl_id)
    for name, mechanism in _gone(before.scram, after.scram):
        yield records.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
    for token_id in _gone(before.delegation_tokens, after.delegation_tokens):
        yield records.RemoveDelegationTokenRecord(token_id=token_id)
    yield from security_records(after)
