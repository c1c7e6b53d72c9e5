"""All changes since an image: replays records into a delta and applies it to the image.

Time and memory grow with the changes, not the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from sys import intern
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..protocol.internal import cluster_metadata as records
from .changed_maps import applied, applied_maps
from .cluster_delta import ClusterDelta
from .image import EMPTY_IMAGE, TOPIC_RESOURCE, AclImage, DelegationTokenImage, MetadataImage, ScramCredential
from .topics_delta import TopicsDelta

if TYPE_CHECKING:
    from ..protocol.schema import Message
    from .image import ConfigResource, FeaturesImage, QuotaEntity

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
            applied_maps(image.configs, self.configs),
            applied_maps(image.client_quotas, self.client_quotas),
            image.next_producer_id if self.next_producer_id is None else self.next_producer_id,
            applied(image.acls, self.acls),
            applied(image.scram, self.scram),
            applied(image.delegation_tokens, self.delegation_tokens),
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
            features = features._replace(finalized=applied(features.finalized, levels))
        if self.zk_migration_state is not None:
            features = features._replace(zk_migration_state=self.zk_migration_state)
        return features


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
