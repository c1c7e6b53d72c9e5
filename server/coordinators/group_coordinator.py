"""The place of requests to the coordinators of groups. Its import is that of their shards, which many brokers never need.

Drives the shard of one partition of `__consumer_offsets`.

In addition to the common shard driver it handles topic deletions, the metadata image for assignments, generated
member ids, and transaction markers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ...coordinator.common.result import (
    GroupRequest,
    GroupsConfig,
    MetadataChanged,
    Record,
    StreamsGroupsConfig,
    TopicsDeleted,
)
from ...coordinator.groups.base.state import GroupCounters
from ...coordinator.groups.consumer.assignment import ASSIGNORS
from ...coordinator.groups.kinds import KINDS
from ...coordinator.groups.loading import ShardLoader, encode_record
from ...coordinator.groups.shard import GroupShard, error_response
from ...metadata.acls import Operation, ResourceType
from ...metadata.features import GROUP_VERSION
from ...metadata.image import EMPTY_IMAGE, MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.records.compression import Compression
from ...protocol.schema import Message
from ..access.authorization.requirements import Each, authorized_operations
from ..network.api_endpoint import Place
from ..network.call import Call
from ..runtime.clock import gather
from .coordinator_driver import Client, DescribingClient, Pending
from .shard_driver import ShardDriver

if TYPE_CHECKING:
    from ..access.subsystem import AccessSubsystem
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition, Marker
    from ..runtime.metadata_cache import MetadataCache
    from .subsystem import CoordinatorsSubsystem


# Builds the configuration of group shards from the broker's configuration.


def groups_config(config: BrokerConfig, max_record_bytes: int = 0) -> GroupsConfig:
    return GroupsConfig(
        initial_rebalance_delay_ms=config.get("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get("group.max.session.timeout.ms"),
        max_group_size=config.get("group.max.size"),
        offset_metadata_max_bytes=config.get("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=config.get("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.get("group.consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=config.get("group.consumer.assignment.interval.ms"),
        consumer_session_timeout_bounds_ms=(
            config.get("group.consumer.min.session.timeout.ms"),
            config.get("group.consumer.max.session.timeout.ms"),
        ),
        consumer_heartbeat_interval_bounds_ms=(
            config.get("group.consumer.min.heartbeat.interval.ms"),
            config.get("group.consumer.max.heartbeat.interval.ms"),
        ),
        consumer_assignment_interval_bounds_ms=(
            config.get("group.consumer.min.assignment.interval.ms"),
            config.get("group.consumer.max.assignment.interval.ms"),
        ),
        consumer_regex_refresh_interval_ms=config.get("group.consumer.regex.refresh.interval.ms"),
        consumer_max_size=config.get("group.consumer.max.size"),
        consumer_assignors=_known_assignors(config.get("group.consumer.assignors")),
        consumer_migration_policy=config.get("group.consumer.migration.policy").lower(),
        share_session_timeout_ms=config.get("group.share.session.timeout.ms"),
        share_heartbeat_interval_ms=config.get("group.share.heartbeat.interval.ms"),
        share_assignment_interval_ms=config.get("group.share.assignment.interval.ms"),
        share_max_size=config.get("group.share.max.size"),
        share_initialize_retry_interval_ms=config.get("group.share.initialize.retry.interval.ms"),
        streams=_streams_config(config),
        max_record_bytes=max_record_bytes,
    )


def _known_assignors(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the known assignors. Java classes cannot be loaded; if no name is known, Kafka's default assignors apply."""
    return tuple(name for name in names if name in ASSIGNORS) or tuple(ASSIGNORS)


def _streams_config(config: BrokerConfig) -> StreamsGroupsConfig:
    return StreamsGroupsConfig(
        session_timeout_ms=config.get("group.streams.session.timeout.ms"),
        heartbeat_interval_ms=config.get("group.streams.heartbeat.interval.ms"),
        assignment_interval_ms=config.get("group.streams.assignment.interval.ms"),
        initial_rebalance_delay_ms=config.get("group.streams.initial.rebalance.delay.ms"),
        task_offset_interval_ms=config.get("group.streams.task.offset.interval.ms"),
        acceptable_recovery_lag=config.get("group.streams.acceptable.recovery.lag"),
        num_standby_replicas=config.get("group.streams.num.standby.replicas"),
        rack_aware_assignment_tags=tuple(config.get("group.streams.rack.aware.assignment.tags")),
        max_size=config.get("group.streams.max.size"),
    )


class GroupShardDriver(ShardDriver[GroupShard]):
    """Drives the shard of one partition of `__consumer_offsets`."""

    _encode: Callable[[Record], tuple[bytes, bytes | None]] = staticmethod(encode_record)
    _error_response: Callable[[Message, int, ErrorCode], Message] = staticmethod(error_response)

    def __init__(
        self,
        partition: HostedPartition,
        config: GroupsConfig,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression = Compression.NONE,
        image: MetadataImage = EMPTY_IMAGE,
        counters: GroupCounters | None = None,
    ) -> None:
        """`counters`: shared by all shards of the broker."""
        super().__init__(partition, config, clock, commit_timeout_ms, compression)
        self._counters = counters or GroupCounters()
        self._image = image
        #: Topic deletions that arrived while the log was loading.
        self._deletions: list[TopicsDeleted] = []

    def _new_loader(self) -> ShardLoader:
        return ShardLoader(self._config, self.partition.name)

    def _loaded(self, loader: ShardLoader) -> None:
        loader.shard.state.image, loader.shard.state.counters = self._image, self._counters
        super()._loaded(loader)
        deletions, self._deletions = self._deletions, []
        for deletion in deletions:
            self.topics_deleted(deletion)

    def _message(self, pending: Pending, version: int, client: Client) -> GroupRequest:
        request: Any = pending.request
        member_uuid = str(uuid.uuid4()) if type(request) in KINDS.joins and not request.member_id else ""
        message = GroupRequest(pending, request, version, client.client_id or "", client.client_host, member_uuid)
        if isinstance(client, DescribingClient):
            message.describable = client.describable
        return message

    def end_transaction(self, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a transaction's marker after all earlier decisions. `done` gets an error code, or 0."""
        self._turn()
        shard = self._shard
        if shard is None:
            done(self._unavailable_error)
            return
        result = self.partition.end_transaction(marker, self._clock())
        if result.error:
            done(result.error)
            return
        shard.end_of_transaction(marker.producer_id, marker.committed)
        shard.state.next_offset += 1
        self.partition.when_committed(result.end_offset, done)

    def hand_over(self, done: Callable[[int], None]) -> None:
        """Writes what the next coordinator is to know. `done` gets an error code, or 0 when that is committed."""
        shard, now = self._shard, self._clock()
        if shard is None:
            done(self._unavailable_error)
            return
        try:
            shard.hand_over(now)
        except Exception:
            self._failed_by_bug("the handover")
            done(self._unavailable_error)
            return
        self._collect_output(shard, now)
        self._turn()
        self.partition.when_committed(self.partition.log_end_offset, done)

    def metadata_changed(self, message: MetadataChanged) -> None:
        """Applies a new image. While the log is loading, the image is kept until the shard is loaded."""
        self._image = message.image
        if self._shard is not None:
            self.tell(message)

    def topics_deleted(self, message: TopicsDeleted) -> None:
        """Applies topic deletions. While the log is loading, they are kept until the shard is loaded."""
        if self._shard is None:
            self._deletions.append(message)
        else:
            self.tell(message)


#: The level of `group.version` that enables the groups of KIP-848.
_NEEDED_LEVEL = 1


class GroupServices(Protocol):
    """The parts of a broker that these handlers use."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def coordinators(self) -> CoordinatorsSubsystem: ...
    @property
    def access(self) -> AccessSubsystem: ...


def to_coordinator(services: GroupServices, call: Call) -> Message | None:
    """Has the coordinator of the group answer."""
    services.coordinators.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None


#: For requests about one group.
GROUP_COORDINATOR = Place("the coordinator of the group in `group_id`", to_coordinator)
#: For requests about several groups, which may be of different shards.
GROUP_COORDINATORS = Place("the coordinators of the groups that the request names, on the node that takes it")


def consumer_groups_precondition(services: GroupServices, call: Call) -> ErrorCode:
    """Returns UNSUPPORTED_VERSION unless `group.version` and `group.coordinator.rebalance.protocols` enable the groups of
    KIP-848.
    """
    if services.metadata.image.features.level(GROUP_VERSION) < _NEEDED_LEVEL:
        return ErrorCode.UNSUPPORTED_VERSION
    is_on = "consumer" in services.config.get("group.coordinator.rebalance.protocols")
    return ErrorCode.NONE if is_on else ErrorCode.UNSUPPORTED_VERSION


# ---- responses about topics, some of which were made before the group was asked


class TopicResponse(Protocol):
    name: str
    topic_id: bytes
    partitions: list[Any]


Response = TypeVar("Response", bound=TopicResponse)


def merged(error_results: Iterable[Response], decided: Iterable[Response]) -> list[Response]:
    """Joins the results of a topic of which some partitions were rejected before."""
    results = {(topic.topic_id, topic.name): topic for topic in error_results}
    for topic in decided:
        known = results.setdefault((topic.topic_id, topic.name), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(results.values())


# ---- descriptions of groups

#: Groups that the client may describe, and the topics that a description names.
DESCRIBED_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
NAMED_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
#: Kafka's words.
HAS_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class HiddenTopics(NamedTuple):
    """The reason that hides a group: it names topics that the client may not describe. `words`: the error message."""

    topics_of: Callable[[Any], Iterable[str]]
    words: str


def describe(
    services: GroupServices,
    call: Call,
    group_ids: Iterable[str],
    question: Callable[[list[str]], Message],
    response: Callable[..., Message],
    rejected: Callable[..., Any],
    first: Iterable[Any] = (),
    hidden: HiddenTopics | None = None,
) -> None:
    """Scatters the request to the shards and gathers one response. `question` is the request for some of the groups;
    `first` are descriptions that need no shard. `rejected`: the class of a description.
    """
    groups = services.coordinators.groups
    asked = list(group_ids)
    denied = DESCRIBED_GROUPS.denied(services.access.authorizer, call, asked)
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    unseen = [rejected(group_id=group_id, error_code=error) for group_id in asked if group_id in denied]

    def reply(responses: list[Any]) -> None:
        described = [group for one in responses for group in one.groups]
        for group in described if call.request.include_authorized_operations else ():
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    services.access.authorizer, call, ResourceType.GROUP, group.group_id
                )
        if hidden is not None and services.access.authorizer is not None:
            described = _without_hidden(services, call, described, rejected, hidden)
        call.reply(response(groups=[*first, *unseen, *described]))

    permitted = [group_id for group_id in asked if group_id not in denied]
    gather(
        [partial(groups.submit, ids[0], question(ids), call.version, call) for ids in groups.by_partition(permitted)],
        reply,
    )


def _without_hidden(
    services: GroupServices, call: Call, described: list[Any], rejected: Callable[..., Any], hidden: HiddenTopics
) -> list[Any]:
    named = [set(hidden.topics_of(group)) for group in described]
    denied = NAMED_TOPICS.denied(services.access.authorizer, call, set().union(*named))
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        group
        if denied.isdisjoint(names)
        else rejected(group_id=group.group_id, error_code=error, error_message=hidden.words)
        for group, names in zip(described, named, strict=True)
    ]
