"""The settings of a consumer group: its own configuration if present, else the broker's (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..group_settings import number

if TYPE_CHECKING:
    from ..shard_state import ShardState


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    of_broker, bounds = state.config.consumer_session_timeout_ms, state.config.consumer_session_timeout_bounds_ms
    return number(state, group_id, "consumer.session.timeout.ms", of_broker, bounds)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    of_broker, bounds = state.config.consumer_heartbeat_interval_ms, state.config.consumer_heartbeat_interval_bounds_ms
    return number(state, group_id, "consumer.heartbeat.interval.ms", of_broker, bounds)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    of_broker, bounds = (
        state.config.consumer_assignment_interval_ms,
        state.config.consumer_assignment_interval_bounds_ms,
    )
    return number(state, group_id, "consumer.assignment.interval.ms", of_broker, bounds)
