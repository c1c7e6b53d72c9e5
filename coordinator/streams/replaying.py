"""Records of streams groups out of the log, into the group that they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.internal.streams_group_records import StreamsGroupMetadataKey
from ...protocol.schema import Message
from .group import StreamsGroup
from .record_types import RECORD_TYPES

if TYPE_CHECKING:
    from ..state import ShardState

KEYS: tuple[type[Message], ...] = tuple(key for key, _ in RECORD_TYPES.values())


def replay(state: ShardState, key: Any, value: Message | None) -> None:
    group = state.find(StreamsGroup, key.group_id)
    if group is None:
        if value is None:
            return
        # Only offsets may have made a classic group of it, or it was one before.
        group = StreamsGroup(key.group_id)
        state.put(group)
    if value is None and isinstance(key, StreamsGroupMetadataKey):
        state.remove(key.group_id)
    else:
        group.replay(key, value)
