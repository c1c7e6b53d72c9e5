"""Admin requests on groups: DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-3."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import DescribedClassicGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..result import GroupRequest
from .classic.group import ClassicGroup, ClassicGroupState
from .kept_listing import KeptListing
from .offset_removal import delete_offsets_of_group
from .shard_state import ShardState

#: These versions distinguish a missing group from a dead one (KIP-1043).
_WITH_ERROR_MESSAGE = DescribedClassicGroup.versions_with("error_message")


def describe(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, DescribeGroupsRequest)
    described = []
    for group_id in request.groups:
        one = _described(state.find(ClassicGroup, group_id), group_id, message.version)
        if group_id in state.groups and one.error_code:
            one.error_message = f"Group {group_id} is not a classic group."
        described.append(one)
    state.reply(message, DescribeGroupsResponse(groups=described))


def _described(group: ClassicGroup | None, group_id: str, version: int) -> DescribedClassicGroup:
    if group is None:
        absent = DescribedClassicGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
        if version in _WITH_ERROR_MESSAGE:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            absent.error_message = f"Group {group_id} not found."
        return absent
    # Only in a Stable group does every member's metadata belong to the group's protocol.
    protocol_name = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribedClassicGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[member.as_described(protocol_name) for member in group.members.values()],
    )


def list_groups(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, ListGroupsRequest)
    states = {name.lower().strip() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    response, listings = ListGroupsResponse(), state.listings
    add = response.groups.append
    for group_id, group in state.groups.items():
        if types and group.kind not in types:
            continue
        kept, group_state, protocol_type = listings.get(group_id), group.state, group.protocol_type or ""
        if (
            kept is None
            or kept.group is not group
            or kept.state is not group_state
            or kept.protocol_type != protocol_type
        ):
            kept = listings[group_id] = KeptListing(group, group_state, protocol_type)
        if not states or kept.group_state.lower() in states:
            add(kept)
    state.reply(message, response)


def delete_groups(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, DeleteGroupsRequest)
    results = []
    for group_id in request.groups_names:
        group = state.groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else state.kind_of(group).validate_deletion(group)
        if group is not None and error is ErrorCode.NONE:
            delete_offsets_of_group(state, group_id)
            state.kind_of(group).delete(state, group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    state.reply(message, DeleteGroupsResponse(results=results))
