"""Records of `__cluster_metadata`, the KRaft log with the cluster's state (KIP-500).

A record's value is the frame version, type and version as varints, then the message; its key is null. Image and delta
are the result of their replay. The versions written follow the finalized `metadata.version`, so that every node can
read them: registrations 1 in-controlled-shutdown, 2 migration, 3 log directories (KIP-858), 4 cordoned ones
(KIP-1066); partitions and their changes 1 directories (KIP-858), 2 eligible leader replicas (KIP-966). Begin, end and
abort records enclose an atomic sequence of records (KIP-868).
"""

from __future__ import annotations

from ..schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Message,
    array,
    message,
    struct,
    wire,
)


@message("0", flexible="0+", key=25)
class AbortTransactionRecord(Message):
    reason: str | None = wire(STRING, nullable="0+", tag=0, default=None)


@message("0", flexible="0+", key=18)
class AccessControlEntryRecord(Message):
    id: bytes = wire(UUID)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@message("0", flexible="0+", key=23)
class BeginTransactionRecord(Message):
    name: str | None = wire(STRING, nullable="0+", tag=0, default=None)


@message("0-3", flexible="0+", key=17)
class BrokerRegistrationChangeRecord(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)
    fenced: int = wire(INT8, tag=0)
    in_controlled_shutdown: int = wire(INT8, "1+", tag=1)
    log_dirs: list[bytes] = wire(array(UUID), "2+", tag=2)
    cordoned_log_dirs: list[bytes] | None = wire(array(UUID), "3+", nullable="3+", tag=3, default=None)


@message("0", flexible="0+", key=28)
class ClearElrRecord(Message):
    topic_name: str = wire(STRING)


@struct
class QuotaRecordEntity(Message):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable="0+")


@message("0", flexible="0+", key=14)
class ClientQuotaRecord(Message):
    entity: list[QuotaRecordEntity] = wire(array(QuotaRecordEntity))
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


@message("0", flexible="0+", key=4)
class ConfigRecord(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")


@message("0", flexible="0+", key=10)
class DelegationTokenRecord(Message):
    owner: str = wire(STRING)
    requester: str = wire(STRING)
    renewers: list[str] = wire(array(STRING))
    issue_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    expiration_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)


@message("0", flexible="0+", key=24)
class EndTransactionRecord(Message):
    pass


@message("0", flexible="0+", key=12)
class FeatureLevelRecord(Message):
    name: str = wire(STRING)
    feature_level: int = wire(INT16)


@message("0", flexible="0+", key=7)
class FenceBrokerRecord(Message):
    id: int = wire(INT32)
    epoch: int = wire(INT64)


@message("0", flexible="0+", key=20)
class NoOpRecord(Message):
    pass


@message("0-2", flexible="0+", key=5)
class PartitionChangeRecord(Message):
    partition_id: int = wire(INT32, default=-1)
    topic_id: bytes = wire(UUID)
    isr: list[int] | None = wire(array(INT32), nullable="0+", tag=0, default=None)
    leader: int = wire(INT32, tag=1, default=-2)
    replicas: list[int] | None = wire(array(INT32), nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = wire(array(INT32), nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = wire(array(INT32), nullable="0+", tag=4, default=None)
    leader_recovery_state: int = wire(INT8, tag=5, default=-1)
    directories: list[bytes] | None = wire(array(UUID), "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = wire(array(INT32), "2+", nullable="2+", tag=6, default=None)
    last_known_elr: list[int] | None = wire(array(INT32), "2+", nullable="2+", tag=7, default=None)


@message("0-2", flexible="0+", key=3)
class PartitionRecord(Message):
    partition_id: int = wire(INT32, default=-1)
    topic_id: bytes = wire(UUID)
    replicas: list[int] = wire(array(INT32))
    isr: list[int] = wire(array(INT32))
    removing_replicas: list[int] = wire(array(INT32))
    adding_replicas: list[int] = wire(array(INT32))
    leader: int = wire(INT32, default=-1)
    leader_recovery_state: int = wire(INT8, tag=0)
    leader_epoch: int = wire(INT32, default=-1)
    partition_epoch: int = wire(INT32, default=-1)
    directories: list[bytes] = wire(array(UUID), "1+")
    eligible_leader_replicas: list[int] | None = wire(array(INT32), "2+", nullable="2+", tag=1, default=None)
    last_known_elr: list[int] | None = wire(array(INT32), "2+", nullable="2+", tag=2, default=None)


@message("0", flexible="0+", key=15)
class ProducerIdsRecord(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    next_producer_id: int = wire(INT64)


@struct
class BrokerEndpoint(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@struct
class BrokerFeature(Message):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message("0-4", flexible="0+", key=0)
class RegisterBrokerRecord(Message):
    broker_id: int = wire(INT32)
    is_migrating_zk_broker: bool = wire(BOOL, "2+")
    incarnation_id: bytes = wire(UUID)
    broker_epoch: int = wire(INT64)
    end_points: list[BrokerEndpoint] = wire(array(BrokerEndpoint))
    features: list[BrokerFeature] = wire(array(BrokerFeature))
    rack: str | None = wire(STRING, nullable="0+")
    fenced: bool = wire(BOOL, default=True)
    in_controlled_shutdown: bool = wire(BOOL, "1+")
    log_dirs: list[bytes] = wire(array(UUID), "3+", tag=0)
    cordoned_log_dirs: list[bytes] | None = wire(array(UUID), "4+", nullable="4+", tag=1, default=None)


@struct
class ControllerEndpoint(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@struct
class ControllerFeature(Message):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message("0", flexible="0+", key=27)
class RegisterControllerRecord(Message):
    controller_id: int = wire(INT32)
    incarnation_id: bytes = wire(UUID)
    zk_migration_ready: bool = wire(BOOL)
    end_points: list[ControllerEndpoint] = wire(array(ControllerEndpoint))
    features: list[ControllerFeature] = wire(array(ControllerFeature))


@message("0", flexible="0+", key=19)
class RemoveAccessControlEntryRecord(Message):
    id: bytes = wire(UUID)


@message("0", flexible="0+", key=26)
class RemoveDelegationTokenRecord(Message):
    token_id: str = wire(STRING)


@message("0", flexible="0+", key=9)
class RemoveTopicRecord(Message):
    topic_id: bytes = wire(UUID)


@message("0", flexible="0+", key=22)
class RemoveUserScramCredentialRecord(Message):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@message("0", flexible="0+", key=2)
class TopicRecord(Message):
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID)


@message("0", flexible="0+", key=8)
class UnfenceBrokerRecord(Message):
    id: int = wire(INT32)
    epoch: int = wire(INT64)


@message("0", flexible="0+", key=1)
class UnregisterBrokerRecord(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)


@message("0", flexible="0+", key=29)
class UnregisterControllerRecord(Message):
    controller_id: int = wire(INT32)


@message("0", flexible="0+", key=11)
class UserScramCredentialRecord(Message):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    salt: bytes = wire(BYTES)
    stored_key: bytes = wire(BYTES)
    server_key: bytes = wire(BYTES)
    iterations: int = wire(INT32)


@message("0", flexible="0+", key=21)
class ZkMigrationStateRecord(Message):
    zk_migration_state: int = wire(INT8)
