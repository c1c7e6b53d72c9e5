"""Builds the configuration of group shards from the broker's configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...coordinator.groups.consumer.assignors import ASSIGNORS
from ...coordinator.groups_config import GroupsConfig, StreamsGroupsConfig

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig


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
