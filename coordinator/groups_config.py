"""The configuration of a broker's groups: limits and defaults of all kinds."""

from __future__ import annotations

from dataclasses import dataclass

Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StreamsGroupsConfig:
    """The settings of streams groups without their own configuration (KIP-1071)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    max_size: int = 2_147_483_647


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """The broker configuration that the shard uses; Kafka's keys, units last."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_group_size: int = 2_147_483_647
    #: The time limit of a JoinGroup of a member that never got a response; a constant in Kafka too.
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    #: The minimum and maximum of a group's own value.
    consumer_session_timeout_bounds_ms: Bounds = (45_000, 60_000)
    consumer_heartbeat_interval_bounds_ms: Bounds = (5_000, 15_000)
    consumer_assignment_interval_bounds_ms: Bounds = (0, 15_000)
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    #: The permitted protocol changes of groups with members: bidirectional, upgrade, downgrade, disabled.
    consumer_migration_policy: str = "bidirectional"
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200
    #: The time after which an initialize request to the persister is repeated.
    share_initialize_retry_interval_ms: int = 30_000
    streams: StreamsGroupsConfig = StreamsGroupsConfig()
    #: The maximum size of a group's record (max.message.bytes of the topic).
    max_record_bytes: int = 1_048_588
