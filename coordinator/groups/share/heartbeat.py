"""ShareGroupHeartbeat 1: join, subscribe, leave.

The steps have Kafka's order: the member, the group epoch, the target assignment, the member's assignment, and last
the partitions that the persister must initialize. The response does not wait for the persister: a later heartbeat
assigns these partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ....metadata.image import TopicIdPartition
from ....protocol.errors import ErrorCode
from ....protocol.internal.share_group_records import ShareGroupMemberMetadataValue
from ....protocol.messages.consumer_groups import Assignment as AssignmentResponse
from ....protocol.messages.consumer_groups import TopicPartitions
from ....protocol.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...result import Event, GroupRequest
from ..assigned_group import (
    TargetNeed,
    ValidationError,
    first_error,
    full,
    invalid,
    no_group,
    restart_sessions,
    target_need,
    topics_by_name,
    unknown_member,
    wrong_epoch,
)
from ..consumer.group import metadata_hash
from . import group as writing
from .group import (
    EMPTY_METADATA,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Member,
    Partitions,
    ShareGroup,
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
    write_current,
    write_member,
)
from .offset_requests import Followed, begin

if TYPE_CHECKING:
    from ..state import ShardState


# The assignor of share groups: `simple`.
#
# The assignor balances the members per partition and the partitions per member. With more members than partitions
# several members have the same partition. A member keeps its current partitions where possible. When subscriptions
# differ, the assignor assigns each topic on its own, to the members that subscribe to it.


Assignment = dict[str, dict[bytes, frozenset[int]]]


class Subscriber(NamedTuple):
    topic_ids: frozenset[bytes]
    #: The current target assignment.
    current: Partitions


def simple(members: Mapping[str, Subscriber], assignable: Mapping[bytes, frozenset[int]]) -> Assignment:
    """Returns the target assignment of each member. `assignable`: topic id -> partitions that may be assigned."""
    taken: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    if len({member.topic_ids for member in members.values()}) <= 1:
        topic_ids = next((member.topic_ids for member in members.values()), frozenset())
        _share(members, sorted(members), _every_partition(topic_ids, assignable), taken)
    else:
        for topic_id in sorted(assignable):
            subscribers = [m for m in sorted(members) if topic_id in members[m].topic_ids]
            _share(members, subscribers, _every_partition({topic_id}, assignable), taken)
    return {member_id: _gathered(partitions) for member_id, partitions in taken.items()}


def _every_partition(
    topic_ids: frozenset[bytes] | set[bytes], assignable: Mapping[bytes, frozenset[int]]
) -> list[TopicIdPartition]:
    return [(t, index) for t in sorted(topic_ids) for index in sorted(assignable.get(t, ()))]


def _share(
    members: Mapping[str, Subscriber],
    sharers: Sequence[str],
    partitions: list[TopicIdPartition],
    taken: dict[str, set[TopicIdPartition]],
) -> None:
    if not sharers or not partitions:
        return
    sharing = -(-len(sharers) // len(partitions))
    total = sharing * len(partitions)
    #: The partitions that each member still gets. The sum is exactly `total`, whatever the remainder.
    room = {m: -(-total * (i + 1) // len(sharers)) - -(-total * i // len(sharers)) for i, m in enumerate(sharers)}
    having: dict[TopicIdPartition, set[str]] = {partition: set() for partition in partitions}

    def take(member_id: str, partition: TopicIdPartition) -> None:
        room[member_id] -= 1
        having[partition].add(member_id)
        taken[member_id].add(partition)

    for member_id in sharers:
        for partition in partitions:
            is_current = partition[1] in members[member_id].current.get(partition[0], ())
            if is_current and room[member_id] > 0 and len(having[partition]) < sharing:
                take(member_id, partition)
    for _ in range(sharing):
        for partition in sorted(partitions, key=lambda partition: len(having[partition])):
            if len(having[partition]) < sharing:
                free = [m for m in sharers if m not in having[partition] and (room[m] > 0 or not having[partition])]
                if free:
                    take(max(free, key=room.__getitem__), partition)


def _gathered(partitions: set[TopicIdPartition]) -> dict[bytes, frozenset[int]]:
    gathered: dict[bytes, set[int]] = {}
    for topic_id, index in sorted(partitions):
        gathered.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in gathered.items()}


# Group epochs and target assignments of share groups.


def update_epoch(state: ShardState, group: ShareGroup, subscription_changed: bool) -> bool:
    """Increments the group epoch if subscriptions, topics or assignable partitions changed. Returns whether it did."""
    has_changed = subscription_changed
    if group.target_epoch >= group.epoch and group.has_unassigned_states():
        has_changed = True
    if not has_changed and not group.is_outdated:
        return False
    digest = metadata_hash(state.image, group.subscribed_topics())
    group.is_outdated = False
    if not has_changed and digest == group.metadata_hash:
        return False
    writing.write_epoch(state, group.group_id, group.epoch + 1, digest)
    state.counters.share_rebalances += 1
    return True


def update_target(state: ShardState, group: ShareGroup, now: int) -> None:
    """Computes the target for the group's epoch, unless the last one is younger than the assignment interval.

    A later heartbeat computes a deferred target.
    """
    if target_need(group, assignment_interval_ms(state, group.group_id), now) is not TargetNeed.NOW:
        return
    topics = topics_by_name(state.image, group.subscribed_topics())
    members = {
        member_id: Subscriber(
            frozenset(topics[name].id for name in member.metadata.subscribed_topic_names if name in topics),
            group.targets.get(member_id, {}),
        )
        for member_id, member in group.members.items()
    }
    initialized = group.states.initialized if group.states is not None else {}
    assignable = {
        topic.id: frozenset(i for i in initialized[topic.id].partitions if i in topic.partitions)
        for topic in topics.values()
        if topic.id in initialized
    }
    writing.write_targets(state, group, simple(members, assignable), group.epoch, now)


def remove_member(state: ShardState, group: ShareGroup, member_id: str) -> None:
    """Removes a member that left or was fenced. The others get its partitions with their next heartbeats."""
    writing.remove_member(state, group.group_id, member_id)
    digest = metadata_hash(state.image, group.subscribed_topics())
    writing.write_epoch(state, group.group_id, group.epoch + 1, digest)
    if not group.members:
        # The next member does not wait for the assignment interval.
        writing.write_target_epoch(state, group.group_id, group.epoch, 0)


def expired(state: ShardState, event: Event, now: int) -> None:
    group = state.find(ShareGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    remove_member(state, group, event[2])


def restore(state: ShardState, group: ShareGroup, now: int) -> None:
    """Starts a whole session for every member after a load."""
    group.is_outdated = True
    restart_sessions(state, group, now, session_timeout_ms)


# Validation of ShareGroupHeartbeat, with Kafka's error messages. Each check is a small function; they run in order.


Heartbeat = ShareGroupHeartbeatRequest
#: A member generates its own id: a UUID as text.
MAX_MEMBER_ID_LENGTH = 36


def error_response(validation_error: ValidationError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=validation_error.error, error_message=validation_error.message)


def member_id_is_possible(request: Heartbeat) -> ValidationError | None:
    """Checks the length of the member id, before all other checks. The error has no message."""
    is_possible = 0 < len(request.member_id) <= MAX_MEMBER_ID_LENGTH
    return None if is_possible else ValidationError(ErrorCode.INVALID_REQUEST, None)


def member_id_is_given(request: Heartbeat) -> ValidationError | None:
    return None if request.member_id.strip() else invalid("MemberId can't be empty.")


def group_id_is_given(request: Heartbeat) -> ValidationError | None:
    return None if request.group_id.strip() else invalid("GroupId can't be empty.")


def rack_is_not_empty(request: Heartbeat) -> ValidationError | None:
    return None if request.rack_id is None or request.rack_id.strip() else invalid("RackId can't be empty.")


def who_joins_subscribes(request: Heartbeat) -> ValidationError | None:
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        return invalid("SubscribedTopicNames must be set in first request.")
    return None


def epoch_is_possible(request: Heartbeat) -> ValidationError | None:
    return None if request.member_epoch >= LEAVE_EPOCH else invalid("MemberEpoch is invalid.")


CHECKS: tuple[Callable[[Heartbeat], ValidationError | None], ...] = (
    member_id_is_possible,
    member_id_is_given,
    group_id_is_given,
    rack_is_not_empty,
    who_joins_subscribes,
    epoch_is_possible,
)


def validate(request: Heartbeat) -> ValidationError | None:
    return first_error(CHECKS, request)


def validate_epoch(member: Member, epoch: int) -> ValidationError | None:
    """Checks the member epoch. A rejoin is valid; so is the previous epoch, from a member that missed a response."""
    if epoch in (JOIN_EPOCH, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return None
    if epoch > member.epoch:
        return wrong_epoch("share", "greater", epoch, member.epoch)
    besides = f", and it does not match the previous member epoch ({member.previous_epoch})"
    return wrong_epoch("share", "smaller", epoch, member.epoch, besides)


Response = Followed[ShareGroupHeartbeatResponse]


def heartbeat(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ShareGroupHeartbeatRequest)
    validation_error = validate(request)
    if validation_error is None:
        leaves = request.member_epoch == LEAVE_EPOCH
        response = _leave(state, request) if leaves else _beat(state, message, request, now)
    else:
        response = validation_error
    state.reply(
        message, Followed(error_response(response), None) if isinstance(response, ValidationError) else response
    )


def _leave(state: ShardState, request: ShareGroupHeartbeatRequest) -> Response | ValidationError:
    group = state.find(ShareGroup, request.group_id)
    if group is None:
        return no_group(state.groups, request.group_id, ShareGroup.kind, "Group")
    if request.member_id not in group.members:
        return unknown_member(group.group_id, request.member_id)
    remove_member(state, group, request.member_id)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return Followed(response, None)


def _beat(
    state: ShardState, message: GroupRequest, request: ShareGroupHeartbeatRequest, now: int
) -> Response | ValidationError:
    group_id, member_id, is_joining = request.group_id, request.member_id, request.member_epoch == JOIN_EPOCH
    group = state.find(ShareGroup, group_id)
    if group is None:
        if not is_joining or group_id in state.groups:
            return no_group(state.groups, group_id, ShareGroup.kind)
        group = ShareGroup(group_id)
    limit = state.config.share_max_size
    if len(group.members) >= limit and member_id not in group.members:
        return full(ShareGroup.kind, limit)
    member = group.members.get(member_id)
    if member is None:
        if not is_joining:
            return unknown_member(group_id, member_id)
        member = Member(member_id, EMPTY_METADATA)
    validation_error = validate_epoch(member, request.member_epoch)
    return _go_on(state, group, member, message, request, now) if validation_error is None else validation_error


def _go_on(
    state: ShardState,
    group: ShareGroup,
    member: Member,
    message: GroupRequest,
    request: ShareGroupHeartbeatRequest,
    now: int,
) -> Response:
    group_id, member_id = group.group_id, member.member_id
    names = request.subscribed_topic_names
    metadata = ShareGroupMemberMetadataValue(
        rack_id=request.rack_id if request.rack_id is not None else member.metadata.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        subscribed_topic_names=sorted(set(names)) if names is not None else member.metadata.subscribed_topic_names,
    )
    if metadata != member.metadata:
        write_member(state, group_id, member_id, metadata)
        group = state.find(ShareGroup, group_id) or group
    is_new_epoch = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    is_new_epoch = update_epoch(state, group, is_new_epoch)
    update_target(state, group, now)
    after = _at_target(state, group, group.members[member_id], is_new_epoch)
    state.timers.set(group.session(member_id), now + session_timeout_ms(state, group_id))
    response = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state, group_id),
    )
    if request.member_epoch == JOIN_EPOCH or names is not None or after.assigned != member.assigned:
        response.assignment = AssignmentResponse(
            topic_partitions=[TopicPartitions(topic_id=t, partitions=sorted(p)) for t, p in after.assigned.items()]
        )
    return Followed(response, begin(state, group, now))


def _at_target(state: ShardState, group: ShareGroup, member: Member, is_new_epoch: bool) -> Member:
    """Returns the member with its part of the target, without topics that it does not subscribe to."""
    if member.epoch == group.target_epoch and not is_new_epoch:
        return member
    names = member.metadata.subscribed_topic_names
    subscribed = {topic.id for name in names if (topic := state.image.topic(name)) is not None}
    target = group.targets.get(member.member_id, {})
    after = replace(member, assigned={t: p for t, p in target.items() if t in subscribed})
    if member.epoch != group.target_epoch:
        after = replace(after, epoch=group.target_epoch, previous_epoch=member.epoch)
    if after != member:
        write_current(state, group.group_id, after)
    return after
