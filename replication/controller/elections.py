"""Who leads when brokers come and go, and when somebody asks for an election (ElectLeaders)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...metadata.image import NO_LEADER, PartitionImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.schema import Message
from .partition_change import Election, PartitionChange
from .result import ApiError, ControllerResult, RefusedRequest, in_own_words
from .state import ControllerState

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
NOBODY = NO_LEADER


class Move(NamedTuple):
    """What happens to a broker while the image does not show it yet."""

    #: Leaves every ISR and leads nothing.
    leaves: int = NOBODY
    #: May lead from now on.
    comes: int = NOBODY
    #: Comes back without a clean stop: what it has may be less than what it had acknowledged.
    lost_power: int = NOBODY


def leadership_records(
    state: ControllerState, move: Move, concerns: Callable[[PartitionImage], bool]
) -> Iterable[PartitionChangeRecord]:
    """The changes of all partitions that `concerns` picks, in the order of topics and indexes."""
    for _, topic in sorted(state.image.topics.by_name.items()):
        for index, partition in sorted(topic.partitions.items()):
            if concerns(partition):
                record = leadership_record(state, topic, index, move)
                if record is not None:
                    yield record


def leadership_record(
    state: ControllerState, topic: TopicImage, index: int, move: Move
) -> PartitionChangeRecord | None:
    def may_lead(broker: int) -> bool:
        return broker not in (move.leaves, move.lost_power) and (broker == move.comes or state.is_active(broker))

    change = PartitionChange(state, topic, index, may_lead)
    if state.unclean_elections(topic.name):
        change.election = Election.UNCLEAN
    if move.lost_power != NOBODY:
        change.unclean_shutdowns = (move.lost_power,)
    change.isr = [broker for broker in change.isr if broker not in (move.leaves, move.lost_power)]
    return change.record()


def elect_leaders(state: ControllerState, request: ElectLeadersRequest, version: int) -> ControllerResult:
    """Null for the topics means every partition; then those that need no election are left out of the answer."""
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        raise RefusedRequest(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    response = ElectLeadersResponse()
    records: list[Message] = []
    for topic, indexes in _asked(state, request):
        result = ReplicaElectionResult(topic=topic)
        for index in indexes:
            made = _election(state, topic, index, election)
            if isinstance(made, PartitionChangeRecord):
                records.append(made)
                result.partition_result.append(PartitionResult(partition_id=index, error_message=None))
            elif request.topic_partitions is not None or made.code != ErrorCode.ELECTION_NOT_NEEDED:
                error = PartitionResult(partition_id=index, error_code=made.code, error_message=made.message)
                result.partition_result.append(error)
        response.replica_election_results.append(result)
    return ControllerResult(records, response, atomic=False)


def _asked(state: ControllerState, request: ElectLeadersRequest) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is not None:
        return [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    return [(topic.name, sorted(topic.partitions)) for _, topic in sorted(state.image.topics.by_name.items())]


def _election(state: ControllerState, name: str, index: int, election: Election) -> PartitionChangeRecord | ApiError:
    topic = state.image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = election is Election.PREFERRED
    if partition.leader == partition.preferred_replica if preferred else partition.leader != NO_LEADER:
        return in_own_words(ErrorCode.ELECTION_NOT_NEEDED)
    change = PartitionChange(state, topic, index)
    change.election = election
    record = change.record()
    if record is not None:
        return record
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return in_own_words(code)
