"""Replays records into a delta and applies it to the image, in time and memory that grow with the changes, not the
cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any

from immutables import Map

from ..protocol.internal import cluster_metadata as records
from ..protocol.schema import Message
from .cluster_delta import ClusterDelta
from .image import (
    EMPTY_IMAGE,
    TOPIC_RESOURCE,
    AclImage,
    ConfigResource,
    DelegationTokenImage,
    FeaturesImage,
    MetadataImage,
    QuotaEntity,
    ScramCredential,
)
from .topics_delta import TopicsDelta


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


def _applied(old: Map[Any, Any], changes: dict[Any, Any]) -> Map[Any, Any]:
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


def _applied_maps(old: Map[Any, Map[Any, Any]], changes: dict[Any, dict[Any, Any]]) -> Map[Any, Map[Any, Any]]:
    """Returns a map of maps with the changes applied; empty inner maps are removed."""
    return _applied(old, {key: _applied(old.get(key, _EMPTY_MAP), changed) or None for key, changed in changes.items()})


def _nothing(_delta: MetadataDelta, _record: Any) -> None:
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
