"""ElectLeaders: leaders of partitions on request (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.image import NO_LEADER
from ...protocol.election_types import PREFERRED, UNCLEAN
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.messages.elect_leaders import (
    ElectionPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)
from ...protocol.schema import Message
from .partition_change import Election, PartitionChange
from .result import ApiError, ControllerResult, RequestError, in_own_words
from .state import ControllerState

_ELECTIONS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}


def elect_leaders(state: ControllerState, request: ElectLeadersRequest, version: int) -> ControllerResult:
    """Handles ElectLeaders. Null topics mean every partition; the response then omits those that need no election."""
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    response = ElectLeadersResponse()
    records: list[Message] = []
    for topic, indexes in _asked(state, request):
        result = ReplicaElectionResult(topic=topic)
        for index in indexes:
            made = _election(state, topic, index, election)
            if isinstance(made, PartitionChangeRecord):
                records.append(made)
                result.partition_result.append(ElectionPartitionResult(partition_id=index, error_message=None))
            elif request.topic_partitions is not None or made.code != ErrorCode.ELECTION_NOT_NEEDED:
                error = ElectionPartitionResult(partition_id=index, error_code=made.code, error_message=made.message)
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
