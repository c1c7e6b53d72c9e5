"""Validation errors of members that all groups with server-side assignment share (KIP-848, 932, 1071).

The messages are Kafka's. The checks of a single kind are in consumer/heartbeat.py, share/heartbeat.py and
streams/heartbeat.py, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from ...protocol.errors import ErrorCode
from ..rejection import Rejection

AnyMember = TypeVar("AnyMember", covariant=True)


class Membership(Protocol[AnyMember]):
    """A group with its members and static members."""

    group_id: str

    @property
    def members(self) -> Mapping[str, AnyMember]: ...

    @property
    def static_members(self) -> Mapping[str, str]:
        """group.instance.id -> member id."""


class Identity(Protocol):
    """The identity of a request's sender."""

    member_id: str
    instance_id: str | None


def first_error(checks: Iterable[Callable[..., Rejection | None]], *arguments: object) -> Rejection | None:
    for check in checks:
        validation_error = check(*arguments)
        if validation_error is not None:
            return validation_error
    return None


def invalid(words: str) -> Rejection:
    return Rejection(ErrorCode.INVALID_REQUEST, words)


def validate_names(request: Any, *, needs_member_id: bool = True) -> Rejection | None:
    """Checks the names of a consumer's or a streams member's heartbeat, in Kafka's order."""
    if needs_member_id and not request.member_id.strip():
        return invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        return invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        return invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        return invalid("RackId can't be empty.")
    return None


def no_group(groups: Mapping[str, object], group_id: str, kind: str, what: str | None = None) -> Rejection:
    """Returns the error for a missing group or one of another kind.

    `what`: the noun in the message for a missing group; by default "Consumer group" for the kind "consumer".
    """
    is_other = group_id in groups
    absent = f"{what or f'{kind.capitalize()} group'} {group_id} not found."
    return Rejection(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group." if is_other else absent)


def full(kind: str, limit: int) -> Rejection:
    words = f"The {kind} group has reached its maximum capacity of {limit} members."
    return Rejection(ErrorCode.GROUP_MAX_SIZE_REACHED, words)


def too_large(what: str, limit: int) -> Rejection:
    """Returns the error for a heartbeat whose record cannot be stored. Kafka has the same error, without words."""
    words = f"The {what} does not fit into a record of {limit} bytes (max.message.bytes of __consumer_offsets)."
    return Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, words)


def unknown_member(group_id: str, member_id: str) -> Rejection:
    return Rejection(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def find_member(group: Membership[AnyMember], request: Identity) -> AnyMember | Rejection:
    """Returns the existing member that sends a heartbeat or leaves, or an error."""
    if request.instance_id is None:
        return group.members.get(request.member_id) or unknown_member(group.group_id, request.member_id)
    owner_id = group.static_members.get(request.instance_id)
    if owner_id is None:
        return Rejection(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if owner_id != request.member_id:
        words = (
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member {owner_id}."
        )
        return Rejection(ErrorCode.FENCED_INSTANCE_ID, words)
    return group.members[owner_id]


def unreleased(request: Identity, owner_id: str) -> Rejection:
    words = (
        f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the "
        f"instance id is owned by {owner_id} member."
    )
    return Rejection(ErrorCode.UNRELEASED_INSTANCE_ID, words)


def wrong_epoch(kind: str, size: str, epoch: int, known_epoch: int, besides: str = "") -> Rejection:
    """Returns the error for a wrong epoch. `size`: "greater" or "smaller" than the known epoch."""
    words = (
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known_epoch}){besides}. The member must abandon all its partitions and rejoin."
    )
    return Rejection(ErrorCode.FENCED_MEMBER_EPOCH, words)
