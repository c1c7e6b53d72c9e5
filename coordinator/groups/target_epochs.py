"""The need of an assigned group for a new target assignment, and the sessions of its members after a load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from ...metadata.image import MetadataImage, TopicImage
from .assigned_group import AMember, AssignedGroup, ATarget
from .session import Session

if TYPE_CHECKING:
    from .shard_state import ShardState


class TargetNeed(Enum):
    """The need for a new target assignment."""

    NONE = "the target is of the group's epoch"
    DELAYED = "the last target is younger than the assignment interval; a later heartbeat computes the next one"
    NOW = "the target is older than the group's epoch"


def target_need(group: AssignedGroup[AMember, ATarget], interval_ms: int, now_ms: int) -> TargetNeed:
    """`interval_ms`: the shortest time between two targets."""
    if group.epoch <= group.target_epoch:
        return TargetNeed.NONE
    if group.target_timestamp_ms and now_ms < group.target_timestamp_ms + interval_ms:
        return TargetNeed.DELAYED
    return TargetNeed.NOW


def topics_by_name(image: MetadataImage, names: Iterable[str]) -> dict[str, TopicImage]:
    """Returns the topics that exist among these."""
    return {name: topic for name in names if (topic := image.topic(name)) is not None}


def restart_sessions(
    state: ShardState, group: AssignedGroup[AMember, ATarget], now_ms: int, timeout_ms: Callable[[ShardState, str], int]
) -> None:
    """Starts a whole session for every member after a load."""
    for member_id in group.members:
        state.timers.set(group.session(member_id), now_ms + timeout_ms(state, group.group_id))


def sessions(
    state: ShardState, group: AssignedGroup[AMember, ATarget], timeout_ms: Callable[[ShardState, str], int]
) -> Iterator[Session]:
    """Yields the sessions of all members, which have one length."""
    length_ms = timeout_ms(state, group.group_id)
    for member_id in group.members:
        yield Session(member_id, group.session(member_id), length_ms)
