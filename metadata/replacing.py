"""The records that lead from one image to another, independently built one.

A node that is far behind fetches a snapshot, which contains what exists but not what was removed. The other parts
of the node need the difference as a delta.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from immutables import Map

from ..protocol.internal import cluster_metadata as records
from .image import TOPIC_RESOURCE
from .snapshot import broker_record, controller_record, partition_record, security_records

if TYPE_CHECKING:
    from ..protocol.schema import Message
    from .delta import MetadataDelta
    from .image import ClusterImage, ConfigResource, MetadataImage

K = TypeVar("K", bound=Any)
V = TypeVar("V")
_NOTHING: Map[str, float] = Map()
_NO_CONFIG: Map[str, str] = Map()
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
        old, new = _left(before, after, resource), after.config(*resource)
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield records.ConfigRecord(
                    resource_type=resource[0], resource_name=resource[1], name=key, value=new.get(key)
                )


def _left(before: MetadataImage, after: MetadataImage, resource: ConfigResource) -> Map[str, str]:
    """Returns the configs before the change; none of a deleted topic, since its record removes them. A topic that was
    created again under the name has them all from records.
    """
    topic = before.topic(resource[1]) if resource[0] == TOPIC_RESOURCE else None
    is_deleted = topic is not None and topic.id not in after.topics.by_id
    return _NO_CONFIG if is_deleted else before.config(*resource)


def _quotas(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    for entity in sorted({*before.client_quotas, *after.client_quotas}, key=repr):
        old, new = before.client_quotas.get(entity, _NOTHING), after.client_quotas.get(entity, _NOTHING)
        parts = [records.QuotaRecordEntity(entity_type=kind, entity_name=name) for kind, name in entity]
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
