"""The response of StreamsGroupHeartbeat: changed tasks, statuses, and the endpoints of interactive queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....protocol.behaviour_versions import STREAMS_HEARTBEAT_WITH_CLIENT_TAGS
from ....protocol.messages.create_topics import CreatableTopic
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ....protocol.messages.streams_group_heartbeat import StreamsStatus as StatusTold
from ....protocol.messages.streams_members import TaskIds
from ....protocol.schema import Message
from ...result import GroupRequest
from ..member_epochs import JOIN_EPOCH
from . import description
from .endpoints import endpoints
from .group import StreamsGroup
from .member import StreamsMember
from .partition_counts import Status
from .settings import acceptable_recovery_lag, heartbeat_interval_ms, rack_aware_tags, task_offset_interval_ms
from .tasks import TaskId, by_subtopology

if TYPE_CHECKING:
    from ..shard_state import ShardState

#: The versions that can request the description of the topology (KIP-1331).
WITH_DESCRIPTIONS = StreamsGroupHeartbeatResponse.versions_with("topology_description_required")


@dataclass
class NeedsTopics(Message):
    """A response, and the internal topics that its sender must have created. Every heartbeat repeats missing ones."""

    response: StreamsGroupHeartbeatResponse
    topics: tuple[CreatableTopic, ...]


def respond(
    state: ShardState,
    message: GroupRequest,
    request: StreamsGroupHeartbeatRequest,
    group: StreamsGroup,
    before: StreamsMember,
    after: StreamsMember,
    delay: str | None,
    is_new_group: bool,
    now_ms: int,
) -> Message:
    group_id = group.group_id
    status = _status(state, message, group, after, delay)
    response = StreamsGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state, group_id),
        task_offset_interval_ms=task_offset_interval_ms(state, group_id),
        acceptable_recovery_lag=acceptable_recovery_lag(state, group_id),
        status=status,
    )
    has_others = before.assigned != after.assigned
    if request.member_epoch == JOIN_EPOCH or has_others or _says_all(request):
        response.active_tasks = _tasks(after.assigned.active)
        response.standby_tasks = _tasks(after.assigned.standby)
        response.warmup_tasks = _tasks(after.assigned.warmup)
    endpoint = after.metadata.user_endpoint
    if before.metadata.user_endpoint != endpoint or (has_others and endpoint is not None):
        group.endpoint_epoch += 1
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = endpoints(group, after, state.image)
    if not is_new_group:
        response.endpoint_information_epoch = group.endpoint_epoch
    if message.version in WITH_DESCRIPTIONS and not any(s.status_code == Status.STALE_TOPOLOGY for s in status):
        response.topology_description_required = description.asks(group, now_ms)
    configured = group.configured
    if configured is not None and configured.missing:
        return NeedsTopics(response, configured.missing)
    return response


def _says_all(request: StreamsGroupHeartbeatRequest) -> bool:
    """Returns whether the request has all fields, as a client sends it when a response may have been lost.

    Kafka 4.4 does not repeat the tasks then, and no member would process the lost ones until the next assignment. For
    consumer groups it does repeat the assignment (KIP-848).
    """
    return request.rebalance_timeout_ms != -1 and request.active_tasks is not None


def _tasks(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _status(
    state: ShardState, message: GroupRequest, group: StreamsGroup, member: StreamsMember, delay: str | None
) -> list[StatusTold]:
    reported = []
    topology_epoch = member.metadata.topology_epoch
    if group.topology is not None and topology_epoch < group.topology.epoch:
        words = (
            f"The member's topology epoch {topology_epoch} is behind the group's topology epoch {group.topology.epoch}."
        )
        reported.append((Status.STALE_TOPOLOGY, words))
    if delay is not None:
        reported.append((Status.ASSIGNMENT_DELAYED, delay))
    problem = group.configured.problem if group.configured is not None else None
    if problem is not None:
        reported.append((problem.status, str(problem)))
    if group.shutdown_asked_by is not None:
        words = (
            f"Streams group member {group.shutdown_asked_by} encountered a fatal error and requested a shutdown for the "
            "entire application."
        )
        reported.append((Status.SHUTDOWN_APPLICATION, words))
    missing = _missing_tags(state, group, member) if message.version in STREAMS_HEARTBEAT_WITH_CLIENT_TAGS else []
    if missing:
        words = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config."
        )
        reported.append((Status.MISSING_CLIENT_TAGS, words))
    return [StatusTold(status_code=status, status_detail=words) for status, words in reported]


def _missing_tags(state: ShardState, group: StreamsGroup, member: StreamsMember) -> list[str]:
    has = {tag.key for tag in member.metadata.client_tags}
    return [tag for tag in rack_aware_tags(state, group.group_id) if tag not in has]
