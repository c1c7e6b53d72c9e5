"""A group goes by its own configuration where it has one, else by the broker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..metadata.image import GROUP_RESOURCE
from .result import Bounds

if TYPE_CHECKING:
    from .state import ShardState


def number(state: ShardState, group_id: str, key: str, of_broker: int, bounds: Bounds | None = None) -> int:
    """The group's own is held within the broker's bounds, which may be others than when it was set."""
    own = state.image.config(GROUP_RESOURCE, group_id).get(key)
    if own is None:
        return of_broker
    return int(own) if bounds is None else min(max(int(own), bounds[0]), bounds[1])
