"""What a consumer group goes by: its own configuration where it has one, else the broker's (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.image import GROUP_RESOURCE
from ..result import Bounds

if TYPE_CHECKING:
    from ..state import ShardState


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    config = state.config
    own = _own(state, group_id, "consumer.session.timeout.ms", config.consumer_session_timeout_bounds_ms)
    return config.consumer_session_timeout_ms if own is None else own


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    config = state.config
    own = _own(state, group_id, "consumer.heartbeat.interval.ms", config.consumer_heartbeat_interval_bounds_ms)
    return config.consumer_heartbeat_interval_ms if own is None else own


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    config = state.config
    own = _own(state, group_id, "consumer.assignment.interval.ms", config.consumer_assignment_interval_bounds_ms)
    return config.consumer_assignment_interval_ms if own is None else own


def _own(state: ShardState, group_id: str, key: str, bounds: Bounds) -> int | None:
    """Within the bounds of the broker, which may be others than when it was set."""
    own = state.image.config(GROUP_RESOURCE, group_id).get(key)
    low, high = bounds
    return None if own is None else min(max(int(own), low), high)
