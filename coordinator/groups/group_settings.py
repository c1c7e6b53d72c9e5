"""Settings of a group: its own configuration if present, else the broker's."""

from __future__ import annotations

from ...metadata.image import GROUP_RESOURCE
from ..groups_config import Bounds
from .shard_state import ShardState


def number(state: ShardState, group_id: str, key: str, of_broker: int, bounds: Bounds | None = None) -> int:
    """Returns a setting. The group's own value is clamped to the broker's bounds, which may have changed since."""
    own = state.image.config(GROUP_RESOURCE, group_id).get(key)
    if own is None:
        return of_broker
    return int(own) if bounds is None else min(max(int(own), bounds[0]), bounds[1])
