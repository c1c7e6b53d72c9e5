"""Drives the shard of one partition of `__consumer_offsets`.

In addition to the common shard driver it handles topic deletions, the metadata image for assignments, generated
member ids, and transaction markers. A shard gets the published image with each request and timer; only groups that are
assigned partitions of topics follow changes of topics.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...coordinator.groups.consumer.assignment import ASSIGNORS
from ...coordinator.groups.kinds import KINDS
from ...coordinator.groups.shard import GroupShard, ShardLoader, encode_record, error_response
from ...coordinator.groups.state import GroupCounters
from ...coordinator.result import (
    GroupRequest,
    GroupsConfig,
    MetadataChanged,
    Record,
    StreamsGroupsConfig,
    TopicsDeleted,
)
from ...protocol.errors import ErrorCode
from ...protocol.records.compression import Compression
from ...protocol.schema import Message
from ..runtime.subsystem import MetadataCache
from .shard_driver import Client, DescribingClient, Pending, ShardDriver

if TYPE_CHECKING:
    from ...metadata.delta import Part
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition, Marker


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
        metadata: MetadataCache | None = None,
        interest: set[Part] | None = None,
        counters: GroupCounters | None = None,
    ) -> None:
        """`counters`, and `interest` in parts of the metadata: shared by all shards of the broker."""
        super().__init__(partition, config, clock, commit_timeout_ms, compression)
        self._counters = counters or GroupCounters()
        self._metadata = metadata or MetadataCache()
        self._interest: set[Part] = set() if interest is None else interest
        #: Topic deletions that arrived while the log was loading.
        self._deletions: list[TopicsDeleted] = []

    def _new_loader(self) -> ShardLoader:
        return ShardLoader(self._config, self.partition.name)

    def _loaded(self, loader: ShardLoader) -> None:
        state = loader.shard.state
        self._interest |= state.interest
        state.image, state.interest, state.counters = self._metadata.newest, self._interest, self._counters
        super()._loaded(loader)
        deletions, self._deletions = self._deletions, []
        for deletion in deletions:
            self.topics_deleted(deletion)

    def _message(self, pending: Pending, version: int, client: Client) -> GroupRequest:
        assert self._shard is not None, "the shard is not loaded"
        self._shard.state.image = self._metadata.newest
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
        shard.state.image = self._metadata.newest
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
        """Has the groups follow changes of topics. A shard that is loading begins with the image of its end."""
        if self._shard is not None:
            self.tell(message)

    def _expire(self, shard: GroupShard, now: int) -> None:
        shard.state.image = self._metadata.newest
        shard.expire(now)

    def topics_deleted(self, message: TopicsDeleted) -> None:
        """Applies topic deletions. While the log is loading, they are kept until the shard is loaded."""
        if self._shard is None:
            self._deletions.append(message)
        else:
            self.tell(message)
