"""The admin client of commands and of the console, as types: kafka-python has none.

A method has the parameters that this project uses. Structures are those of the responses, by the names that kafka-python
gives their fields. `Patient` and `Admin` of connection.py are these clients at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NotRequired, Protocol, TypedDict, TypeVar

if TYPE_CHECKING:
    from uuid import UUID

    from kafka.admin import (
        ACL,
        AbortTransactionSpec,
        ACLFilter,
        ConfigResource,
        ConfigResourceType,
        NewTopic,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata, TopicPartition

    from ...client.cluster import Cluster

T = TypeVar("T")


class Partition(TypedDict):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


class Topic(TypedDict):
    error_code: int
    error_message: NotRequired[str | None]
    name: str
    topic_id: UUID
    is_internal: bool
    partitions: list[Partition]


class Broker(TypedDict):
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: NotRequired[bool]


class ClusterDescription(TypedDict):
    cluster_id: str
    controller_id: int
    brokers: list[Broker]


class Replica(TypedDict):
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class TopicReplicas(TypedDict):
    name: str
    partitions: list[Replica]


class LogDirectory(TypedDict):
    error_code: int
    log_dir: str
    topics: list[TopicReplicas]
    total_bytes: NotRequired[int]
    usable_bytes: NotRequired[int]


class BrokerDirectories(TypedDict):
    broker: int
    log_dirs: list[LogDirectory]


class QuorumReplica(TypedDict):
    replica_id: int
    replica_directory_id: NotRequired[UUID]
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumPartition(TypedDict):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: list[QuorumReplica]
    observers: list[QuorumReplica]


class QuorumTopic(TypedDict):
    topic_name: str
    partitions: list[QuorumPartition]


class QuorumDescription(TypedDict):
    topics: list[QuorumTopic]


class FeatureLevels(TypedDict, total=False):
    """Lowest and highest levels. A feature that is not in use has no `finalized`."""

    supported: tuple[int, int]
    finalized: tuple[int, int]


class ConfigSynonym(TypedDict):
    name: str
    value: str | None
    source: str


class ConfigValue(TypedDict):
    value: str | None
    read_only: bool
    is_sensitive: bool
    config_source: str
    config_type: NotRequired[str]
    synonyms: NotRequired[list[ConfigSynonym]]
    documentation: NotRequired[str | None]


#: Configs by kind of resource, name of the resource and key.
Configs = dict[str, dict[str, dict[str, ConfigValue]]]


class TopicOptions(TypedDict):
    num_partitions: int
    replication_factor: int
    configs: NotRequired[Mapping[str, str]]


class TopicResult(TypedDict):
    name: str
    error_code: int
    error_message: str | None


class TopicResults(TypedDict):
    topics: list[TopicResult]


class PartitionsResult(Protocol):
    name: str
    error_code: int
    error_message: str | None


class PartitionsResults(Protocol):
    results: list[PartitionsResult]


class GroupListing(TypedDict):
    group_id: str
    protocol_type: str
    group_state: NotRequired[str]
    group_type: NotRequired[str]


class ListedOffset(Protocol):
    offset: int
    timestamp: int
    leader_epoch: int | None


class ScramCredential(TypedDict):
    mechanism: ScramMechanism
    iterations: int


class ScramUser(TypedDict):
    error: str | None
    credential_infos: list[ScramCredential]


class ProducerState(Protocol):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    current_transaction_start_offset: int


class PartitionProducers(Protocol):
    active_producers: list[ProducerState]


class TransactionState(Protocol):
    value: str


class TransactionListing(Protocol):
    transactional_id: str
    producer_id: int
    state: TransactionState


class TransactionDescription(Protocol):
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: TransactionState
    topic_partitions: Collection[TopicPartition]
    transaction_start_time_ms: int
    transaction_timeout_ms: int


class AclResults(TypedDict):
    succeeded: list[ACL]
    failed: list[type[KafkaError]]


class AssignedTopic(TypedDict):
    topic: str
    partitions: list[int]


class DecodedAssignment(TypedDict):
    assigned_partitions: list[AssignedTopic] | None


class GroupMember(TypedDict):
    """A member of a classic group. The assignment of a protocol other than `consumer` is not decoded."""

    member_id: str
    client_id: str
    client_host: str
    member_assignment: DecodedAssignment | bytes


class ClassicGroup(TypedDict):
    error: str | None
    group_state: str
    protocol_data: NotRequired[str]
    members: list[GroupMember]


class TopicPage(TypedDict):
    """A page of topics. `next_cursor` is None on the last one."""

    topics: list[Topic]
    next_cursor: TopicCursor | None


class TopicCursor(TypedDict):
    topic_name: str
    partition_index: int


class RequestSender(Protocol):
    """A client with the requests that kafka-python lacks."""

    @property
    def requests(self) -> Cluster: ...

    def forget_places(self) -> None: ...


class AdminClient(RequestSender, Protocol):
    """A method raises KafkaError, unless its type has errors by subject."""

    @property
    def impatient(self) -> AdminClient: ...

    def repeated(self, step: Callable[[], T], *, is_query: bool = True) -> T: ...

    def describe_cluster(self) -> ClusterDescription: ...

    def describe_log_dirs(
        self,
        topic_partitions: Mapping[str, Sequence[int]] | Sequence[str] | None = None,
        brokers: Sequence[int] | None = None,
    ) -> list[BrokerDirectories]: ...

    def describe_metadata_quorum(self) -> QuorumDescription: ...

    def describe_features(self) -> dict[str, FeatureLevels]: ...

    def update_features(self, feature_updates: Mapping[str, int | tuple[str, int]]) -> dict[str, str]: ...

    def list_topics(self) -> list[str]: ...

    def describe_topics(self, topics: Sequence[str] | None = None) -> list[Topic]: ...

    def describe_topic_partitions(
        self, topics: Sequence[str], response_partition_limit: int, cursor: TopicCursor | None
    ) -> TopicPage: ...

    def create_topics(
        self,
        new_topics: Mapping[str, TopicOptions] | Sequence[NewTopic],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> TopicResults: ...

    def wait_for_topics(self, topic_names: Iterable[str]) -> None: ...

    def delete_topics(self, topics: Sequence[str], *, raise_errors: bool = True) -> TopicResults: ...

    def create_partitions(
        self, topic_partitions: Mapping[str, int], *, validate_only: bool = False, raise_errors: bool = True
    ) -> PartitionsResults: ...

    def delete_records(self, records_to_delete: Mapping[TopicPartition, int]) -> object: ...

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, type[KafkaError] | None]: ...

    def list_partition_offsets(
        self, topic_partition_specs: Mapping[TopicPartition, int], *, isolation_level: str = "READ_UNCOMMITTED"
    ) -> dict[TopicPartition, ListedOffset]: ...

    def describe_configs(
        self, config_resources: Sequence[ConfigResource], *, include_synonyms: bool = False, config_filter: str
    ) -> Configs: ...

    def list_config_resources(self, resource_types: Sequence[ConfigResourceType]) -> dict[str, list[str]]: ...

    def alter_configs(
        self,
        config_resources: Sequence[ConfigResource],
        *,
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]: ...

    def list_groups(self, broker_ids: Sequence[int] | None = None) -> list[GroupListing]: ...

    def describe_groups(
        self, group_ids: Sequence[str], group_coordinator_id: int | None = None
    ) -> dict[str, ClassicGroup]: ...

    def list_group_offsets(
        self, group_specs: Mapping[str, Sequence[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]: ...

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, type[KafkaError]]: ...

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, type[KafkaError]]: ...

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, str]: ...

    def list_transactions(
        self, broker_ids: Sequence[int] | None = None, *, producer_id_filters: Sequence[int] | None = None
    ) -> dict[int, list[TransactionListing]]: ...

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]: ...

    def describe_producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionProducers]: ...

    def abort_transaction(self, spec: AbortTransactionSpec) -> None: ...

    def describe_acls(self, acl_filter: ACLFilter) -> tuple[list[ACL], type[KafkaError]]: ...

    def create_acls(self, acls: Sequence[ACL]) -> AclResults: ...

    def delete_acls(
        self, acl_filters: Sequence[ACLFilter]
    ) -> list[tuple[ACLFilter, list[tuple[ACL, type[KafkaError]]], type[KafkaError]]]: ...

    def describe_user_scram_credentials(self, users: Sequence[str] | None = None) -> dict[str, ScramUser]: ...

    def alter_user_scram_credentials(
        self, alterations: Sequence[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> dict[str, str | None]: ...
