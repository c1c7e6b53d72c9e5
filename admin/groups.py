"""Groups of all kinds: their list, members of classic and consumer groups, deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..protocol.codec import MalformedMessage, decode
from ..protocol.errors import ErrorCode
from ..protocol.internal.consumer_protocol import ConsumerProtocolAssignment
from ..protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ..protocol.messages.delete_groups import DeleteGroupsRequest
from ..protocol.messages.describe_groups import DescribedClassicMember, DescribeGroupsRequest, DescribeGroupsResponse
from ..protocol.messages.list_groups import ListGroupsRequest
from .errors import ResponseError, check
from .nodes import nodes_or_running
from .session import Admin

#: The number of the version before a subscription or an assignment.
_VERSION_BYTES = 2


@dataclass(frozen=True, slots=True)
class GroupListing:
    """`group_state` is "" from brokers before Apache Kafka 2.6, `group_type` before 4.0: all groups are classic there."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str

    @property
    def kind(self) -> str:
        """classic, consumer, share or streams."""
        return self.group_type.lower() or "classic"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`assigned`: topics with their partitions. That of a protocol other than `consumer` is not decoded."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: list[tuple[str, list[int]]]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic or a consumer group. `coordinator`: the node that described it."""

    group_id: str
    group_state: str
    assignor: str
    coordinator: int
    members: list[GroupMember]


def list_groups(admin: Admin, brokers: Sequence[int] | None = None) -> list[GroupListing]:
    """Groups that these brokers coordinate; None: all. Raises RequestFailed where one of them does not respond."""
    return admin.repeated(lambda: [one for node in nodes_or_running(admin, brokers) for one in _listed(admin, node)])


def _listed(admin: Admin, node: int) -> list[GroupListing]:
    response = admin.ask(ListGroupsRequest(), node)
    check(f"groups of broker {node}", response.error_code)
    return [GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in response.groups]


def describe_classic_group(admin: Admin, name: str) -> GroupDescription:
    """Raises ResponseError for a group that does not exist."""

    def step() -> GroupDescription:
        coordinator = admin.coordinator_now(name)
        response: DescribeGroupsResponse = admin.ask(DescribeGroupsRequest(groups=[name]), coordinator)
        (found,) = response.groups
        check(f"group {name}", found.error_code, found.error_message)
        members = [_member(one) for one in found.members]
        return GroupDescription(name, found.group_state, found.protocol_data, coordinator, members)

    return admin.repeated(step)


def _member(member: DescribedClassicMember) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        _assigned(bytes(member.member_assignment)),
    )


def _assigned(assignment: bytes) -> list[tuple[str, list[int]]]:
    """Every version begins with the fields of version 0, after its number."""
    if len(assignment) <= _VERSION_BYTES:
        return []
    try:
        found, _ = decode(ConsumerProtocolAssignment, 0, assignment, _VERSION_BYTES)
    except MalformedMessage:
        return []
    return [(one.topic, sorted(one.partitions)) for one in found.assigned_partitions]


def describe_consumer_group(admin: Admin, name: str) -> GroupDescription:
    """A group of the consumer protocol (KIP-848). Raises ResponseError for a group of another kind."""

    def step() -> GroupDescription:
        coordinator = admin.coordinator_now(name)
        request = ConsumerGroupDescribeRequest(group_ids=[name])
        response: ConsumerGroupDescribeResponse = admin.ask(request, coordinator)
        (found,) = response.groups
        check(f"group {name}", found.error_code, found.error_message)
        members = [
            GroupMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                [(held.topic_name, sorted(held.partitions)) for held in one.assignment.topic_partitions],
            )
            for one in found.members
        ]
        return GroupDescription(name, found.group_state, found.assignor_name, coordinator, members)

    return admin.repeated(step)


def delete_group(admin: Admin, name: str) -> None:
    """Deletes a group and its offsets. Raises ResponseError, also for a group with members."""

    def step() -> None:
        response = admin.ask(DeleteGroupsRequest(groups_names=[name]), admin.coordinator(name))
        (found,) = response.results
        if found.error_code:
            hint = "; stop its members first" if found.error_code == ErrorCode.NON_EMPTY_GROUP else ""
            raise ResponseError(f"group {name}", found.error_code, found.error_message, hint)

    admin.patiently(step)
