"""An image as a sequence of records, the content of a metadata snapshot.

The order of record types is Kafka's: `metadata.version` first, since it may decide how the rest is read. Within a
type the records are sorted, so one image always produces the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..protocol.internal import cluster_metadata as records
from .image import METADATA_VERSION

if TYPE_CHECKING:
    from ..protocol.schema import Message
    from .image import (
        BrokerImage,
        ClusterImage,
        ConfigResource,
        ControllerImage,
        FeaturesImage,
        MetadataImage,
        PartitionImage,
        TopicImage,
    )


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
        parts = [records.QuotaRecordEntity(entity_type=entity_type, entity_name=name) for entity_type, name in entity]
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
