"""The settings of a share group: its own configuration if present, else the broker's (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..group_settings import number

if TYPE_CHECKING:
    from ..shard_state import ShardState


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "share.session.timeout.ms", state.config.share_session_timeout_ms)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "share.heartbeat.interval.ms", state.config.share_heartbeat_interval_ms)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "share.assignment.interval.ms", state.config.share_assignment_interval_ms)
