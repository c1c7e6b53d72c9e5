"""The settings of a streams group: its own configuration if present, else the broker's (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....metadata.image import GROUP_RESOURCE
from ..group_settings import number

if TYPE_CHECKING:
    from ..shard_state import ShardState


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.session.timeout.ms", state.config.streams.session_timeout_ms)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.heartbeat.interval.ms", state.config.streams.heartbeat_interval_ms)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.assignment.interval.ms", state.config.streams.assignment_interval_ms)


def initial_rebalance_delay_ms(state: ShardState, group_id: str) -> int:
    of_broker = state.config.streams.initial_rebalance_delay_ms
    return number(state, group_id, "streams.initial.rebalance.delay.ms", of_broker)


def task_offset_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.task.offset.interval.ms", state.config.streams.task_offset_interval_ms)


def acceptable_recovery_lag(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.acceptable.recovery.lag", state.config.streams.acceptable_recovery_lag)


def assignment_configs(state: ShardState, group_id: str) -> dict[str, str]:
    """Returns the assignment configuration in the form of the group's record. A change causes a new assignment."""
    replicas = number(state, group_id, "streams.num.standby.replicas", state.config.streams.num_standby_replicas)
    configs = {"num.standby.replicas": str(replicas)}
    tags = rack_aware_tags(state, group_id)
    return configs | ({"rack.aware.assignment.tags": ",".join(tags)} if tags else {})


def num_standby_replicas(configs: dict[str, str]) -> int:
    return int(configs.get("num.standby.replicas", "0"))


def rack_aware_tags(state: ShardState, group_id: str) -> tuple[str, ...]:
    own = state.image.config(GROUP_RESOURCE, group_id).get("streams.rack.aware.assignment.tags")
    if own is None:
        return state.config.streams.rack_aware_assignment_tags
    return tuple(tag for one in own.split(",") if (tag := one.strip()))
