"""Reassignments of replicas on request (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.image import TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ...protocol.schema import Message
from .brokers_to_partitions import REASSIGNING
from .partition_change import Election, PartitionChange
from .partitions import check_assignment
from .result import ApiError, ControllerResult
from .state import ControllerState

#: None: the request names the partition, and it needs no change.
_Outcome = PartitionChangeRecord | ApiError | None


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest, version: int
) -> ControllerResult:
    if not request.topics:
        return ControllerResult([], AlterPartitionReassignmentsResponse())
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    records: list[Message] = []
    for topic in request.topics:
        result = ReassignableTopicResponse(name=topic.name)
        for asked in topic.partitions:
            made = _reassigned(state, topic.name, asked, request.allow_replication_factor_change)
            code, message = made if isinstance(made, ApiError) else (ErrorCode.NONE, None)
            result.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=code, error_message=message
                )
            )
            if isinstance(made, PartitionChangeRecord):
                records.append(made)
        response.responses.append(result)
    return ControllerResult(records, response)


def _reassigned(state: ControllerState, name: str, asked: ReassignablePartition, may_resize: bool) -> _Outcome:
    topic = state.image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if asked.partition_index not in topic.partitions:
        message = f"Unable to find partition {name}:{asked.partition_index}."
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if asked.replicas is None:
        return _cancelled(state, topic, asked.partition_index)
    error = check_assignment(state, asked.replicas, None)
    if error is None and not may_resize:
        error = _check_same_size(topic, asked.partition_index, asked.replicas)
    return error or _changed(state, topic, asked.partition_index, asked.replicas)


def _check_same_size(topic: TopicImage, index: int, replicas: list[int]) -> ApiError | None:
    """Checks that the replication factor stays the same, for a request that does not allow changing it (KIP-860)."""
    partition = topic.partitions[index]
    now = set(partition.replicas) - set(partition.removing_replicas)
    if len(now) == len(replicas):
        return None
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"The replication factor is changed from {len(now)} to {len(replicas)}",
    )


def _changed(state: ControllerState, topic: TopicImage, index: int, target: list[int]) -> _Outcome:
    change = PartitionChange(state, topic, index)
    removing = sorted(set(change.replicas) - set(target))
    adding = sorted(set(target) - set(change.replicas))
    change.replicas = [*target, *removing]
    change.removing = removing or change.removing
    change.adding = adding or change.adding
    return change.record()


def _cancelled(state: ControllerState, topic: TopicImage, index: int) -> _Outcome:
    """Returns the record that removes the adding replicas and keeps the removing ones."""
    partition = topic.partitions[index]
    if not partition.is_reassigning:
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    change = PartitionChange(state, topic, index)
    change.replicas = [broker for broker in partition.replicas if broker not in partition.adding_replicas]
    change.isr = [broker for broker in partition.isr if broker not in partition.adding_replicas]
    unclean_allowed = state.unclean_elections(topic.name)
    if not change.isr:
        if not unclean_allowed:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election.",
            )
        change.isr = change.replicas[:1]
    change.removing, change.adding = [], []
    if unclean_allowed:
        change.election = Election.UNCLEAN
    return change.record()


def list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest, version: int
) -> ControllerResult:
    """Handles ListPartitionReassignments. Null topics mean all; topics and partitions without a reassignment are
    omitted.
    """
    response = ListPartitionReassignmentsResponse(error_message=None)
    for topic, indexes in _listed(state, request):
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return ControllerResult([], response)


def _listed(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[TopicImage, Iterable[int]]]:
    if request.topics is None:
        yield from state.partitions_of(REASSIGNING)
        return
    for asked in request.topics:
        found = state.image.topic(asked.name)
        if found is not None:
            yield found, asked.partition_indexes
