"""The part that ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .assigned_group import AssignedGroup
from .member_checks import no_group

if TYPE_CHECKING:
    from .shard_state import ShardState

DescribedGroup = TypeVar("DescribedGroup", bound=AssignedGroup[Any, Any])
Described = TypeVar("Described")


def described(
    state: ShardState,
    group_id: str,
    group_class: type[DescribedGroup],
    described_class: Callable[..., Described],
    own_fields: Callable[[DescribedGroup], dict[str, object]],
) -> Described:
    """Returns the description of a group; `own_fields` returns what only this kind has. A group that does not exist, or
    is of another kind, is described by an error.
    """
    group = state.find(group_class, group_id)
    if group is None:
        error, words = no_group(state.groups, group_id, group_class.kind, "Group")
        return described_class(group_id=group_id, error_code=error, error_message=words)
    return described_class(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        **own_fields(group),
    )
