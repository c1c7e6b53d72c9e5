"""The admin client of commands and of the console: its types, which kafka-python lacks, and the requests that several of
them send, with errors that name their subject.

- `AdminClient`, `Topic` and others: a method has the parameters that this project uses. Structures are those of the
  responses, by the names that kafka-python gives their fields. `Patient` and `Admin` of connection.py are these clients at
  run time.
- `described_topics` to `alter_configs`: requests by kafka-python's admin client.
- `ask`, `coordinator_of`, `patiently`: requests that the client libraries do not have, by the client of
  `odradek.client` and the codecs of odradek.protocol.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, TypedDict, TypeVar

from ..options import FAILED
from .errors import COORDINATOR_MOVES, UNREACHABLE, CommandError, CoordinatorMoves, advice_for, status_of_code

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
    from ...protocol.schema import Message

# ---- types

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


# ---- requests of the admin client

#: `OffsetSpec` of ListOffsets. The last two are of tiered topics: the first offset on the disk, and the last one in the
#: store (-1: none is).
EARLIEST, LATEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -4, -5
#: The number of an error in a text of kafka-python.
_ERROR_NUMBER = re.compile(r"\[Error (\d+)\]")
#: Partitions in one request for offsets: the responses of more take memory that a long process keeps.
_OFFSETS_AT_ONCE = 500


def api_error(subject: str, code: int, message: str | None = None) -> CommandError:
    """An error code of a response, as the error of a command. `subject` names the topic, group or other thing."""
    from kafka.errors import for_code

    kind = for_code(code)
    words = message or getattr(kind, "description", "") or kind.__name__
    error = CoordinatorMoves if code in COORDINATOR_MOVES else CommandError
    return error(f"{subject}: {words.strip().rstrip('.')} ({_wire_name(kind)}){advice_for(code)}", status_of_code(code))


def _wire_name(kind: type) -> str:
    return str(getattr(kind, "message", "") or kind.__name__)


def check(subject: str, code: int, message: str | None = None) -> None:
    if code:
        raise api_error(subject, code, message)


def described_topics(admin: AdminClient, names: Iterable[str] | None) -> list[Topic]:
    """Topics as Metadata describes them, sorted. Raises CommandError for one of `names` that does not exist."""
    wanted = None if names is None else list(names)
    if wanted == []:
        return []
    found = admin.describe_topics(wanted)
    for topic in found:
        if wanted is not None:
            check(f"topic {topic['name']}", topic["error_code"])
        topic["partitions"].sort(key=lambda partition: partition["partition_index"])
    return sorted(found, key=lambda topic: str(topic["name"]))


def partition_offsets(
    admin: AdminClient,
    topics: Iterable[Topic],
    timestamp: int,
    *,
    committed: bool = False,
    without: Container[int] = (),
) -> dict[tuple[str, int], int]:
    """Offsets by (topic, partition) of a spec or a time in ms; without partitions that have no leader, or one
    of the brokers `without`.

    With `committed` the end is the last stable offset, for readers of committed records.
    """
    from kafka.structs import TopicPartition

    asked = {
        TopicPartition(topic["name"], partition["partition_index"]): timestamp
        for topic in topics
        for partition in topic["partitions"]
        if partition["leader_id"] >= 0 and partition["leader_id"] not in without
    }
    if not asked:
        return {}
    level = "READ_COMMITTED" if committed else "READ_UNCOMMITTED"
    response = admin.list_partition_offsets(asked, isolation_level=level)
    return {(where.topic, where.partition): found.offset for where, found in response.items()}


def offsets_at(
    admin: AdminClient, places: Sequence[tuple[str, int]], timestamp: int
) -> Iterator[tuple[tuple[str, int], int]]:
    """Offsets of partitions that have leaders, at EARLIEST, LATEST or a time in ms, in requests of bounded size."""
    from kafka.structs import TopicPartition

    for start in range(0, len(places), _OFFSETS_AT_ONCE):
        asked = {TopicPartition(*place): timestamp for place in places[start : start + _OFFSETS_AT_ONCE]}
        for where, found in admin.list_partition_offsets(asked).items():
            yield (where.topic, where.partition), found.offset


def replica_sizes(admin: AdminClient, topics: list[str] | None = None) -> dict[tuple[str, int], int]:
    """Bytes of the largest replica by (topic, partition), of all log directories that are online."""
    sizes: dict[tuple[str, int], int] = {}
    for broker in admin.describe_log_dirs(topics):
        for directory in broker["log_dirs"]:
            for topic in directory["topics"]:
                for partition in topic["partitions"]:
                    if not partition["is_future_key"]:
                        where = (topic["name"], partition["partition_index"])
                        sizes[where] = max(sizes.get(where, 0), partition["partition_size"])
    return sizes


def config_values(admin: AdminClient, kind: str, name: str, *, which: str = "all") -> dict[str, ConfigValue]:
    """Configs of a resource: `kind` topic, broker, group or client_metrics; `which` all, modified or dynamic."""
    from kafka.admin import ConfigResource, ConfigResourceType

    resource = ConfigResource(ConfigResourceType[kind.upper()], name)
    response = admin.describe_configs([resource], include_synonyms=True, config_filter=which)
    return response.get(kind, {}).get(name, {})


def alter_configs(
    admin: AdminClient, kind: str, name: str, changes: Mapping[str, tuple[str, str | None]], *, dry_run: bool
) -> None:
    """Sets, deletes, appends to or subtracts from configs: name -> (SET, DELETE, APPEND or SUBTRACT, value)."""
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

    entries = {key: (AlterConfigOp[word], value) for key, (word, value) in changes.items()}
    resource = ConfigResource(ConfigResourceType[kind.upper()], name, entries)
    response = admin.alter_configs([resource], validate_only=dry_run, raise_on_unknown=False, incremental=True)
    for results in response.values():
        for result in results.values():
            if result != "OK":
                error, _, words = str(result).partition(": ")
                code = _ERROR_NUMBER.match(error)
                status = status_of_code(int(code[1])) if code is not None else FAILED
                hint = f"; `odradek config get {kind} {name} --all` lists the keys" if status == FAILED else ""
                raise CommandError(f"{kind} {name}: {(words or error).rstrip('.')}{hint}", status)


# ---- requests of odradek.protocol

_PATIENCE_S, _PAUSE_S = 30.0, 0.2


def ask(admin: RequestSender, request: Message, node_id: int | None = None) -> Any:
    """Sends a request, in the newest version that both sides have, to a node or to any. Raises CommandError, and
    ConnectionError without a response.
    """
    from ...client.errors import NotSupported

    try:
        return admin.requests.ask(request, node_id)
    except NotSupported as error:
        raise CommandError(f"the brokers do not support {error}: use a newer version") from None


def coordinator_now(admin: RequestSender, group: str) -> int:
    """The node that coordinates a group. Raises CoordinatorMoves where there is none at the moment."""
    from ...client.errors import CoordinatorError

    try:
        return int(admin.requests.coordinator(group))
    except CoordinatorError as error:
        if error.code in COORDINATOR_MOVES:
            raise CoordinatorMoves(
                f"group {group} has no coordinator at the moment: try again later", UNREACHABLE
            ) from None
        raise api_error(f"group {group}", error.code, error.message) from None


def coordinator_of(admin: RequestSender, group: str) -> int:
    """Works as `coordinator_now`, and waits while a new cluster has none."""
    return patiently(admin, lambda: coordinator_now(admin, group))


def by_coordinator(admin: RequestSender, names: Iterable[str]) -> dict[int, list[str]]:
    """Groups by the node that coordinates them."""
    made: dict[int, list[str]] = defaultdict(list)
    for name in names:
        made[coordinator_of(admin, name)].append(name)
    return made


def patiently(admin: RequestSender, step: Callable[[], T]) -> T:
    """Runs a step that asks coordinators, again while they load or move to other nodes. Raises CommandError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except CoordinatorMoves:
            if time.monotonic() > deadline:
                raise
        admin.forget_places()
        time.sleep(_PAUSE_S)


_OWN = "DYNAMIC_TOPIC_CONFIG"


def own_configs(admin: AdminClient, name: str) -> dict[str, str]:
    """The configs that a topic itself has; the others are defaults of its cluster."""
    values = config_values(admin, "topic", name)
    return {key: str(one["value"]) for key, one in values.items() if one["config_source"] == _OWN}
