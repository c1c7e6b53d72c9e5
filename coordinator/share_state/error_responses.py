"""The responses of the persister's requests, which all have the same form: topics and their partitions."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from ...protocol.schema import Message
from .checks import ValidationError


class Form(NamedTuple):
    topic: Any
    partition: Any
    response: Any
    result: Any
    partition_result: Any


FORMS: dict[type[Message], Form] = {
    initialize_share_group_state.InitializeShareGroupStateRequest: Form(
        initialize_share_group_state.InitializeStateData,
        initialize_share_group_state.PartitionData,
        initialize_share_group_state.InitializeShareGroupStateResponse,
        initialize_share_group_state.InitializeStateResult,
        initialize_share_group_state.PartitionResult,
    ),
    read_share_group_state.ReadShareGroupStateRequest: Form(
        read_share_group_state.ReadStateData,
        read_share_group_state.PartitionData,
        read_share_group_state.ReadShareGroupStateResponse,
        read_share_group_state.ReadStateResult,
        read_share_group_state.PartitionResult,
    ),
    write_share_group_state.WriteShareGroupStateRequest: Form(
        write_share_group_state.WriteStateData,
        write_share_group_state.PartitionData,
        write_share_group_state.WriteShareGroupStateResponse,
        write_share_group_state.WriteStateResult,
        write_share_group_state.PartitionResult,
    ),
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest: Form(
        read_share_group_state_summary.ReadStateSummaryData,
        read_share_group_state_summary.PartitionData,
        read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary.ReadStateSummaryResult,
        read_share_group_state_summary.PartitionResult,
    ),
    delete_share_group_state.DeleteShareGroupStateRequest: Form(
        delete_share_group_state.DeleteStateData,
        delete_share_group_state.PartitionData,
        delete_share_group_state.DeleteShareGroupStateResponse,
        delete_share_group_state.DeleteStateResult,
        delete_share_group_state.PartitionResult,
    ),
}


def only_partition(request: Any) -> tuple[bytes, Any]:
    """Returns the topic id and the partition data of a request for one partition."""
    (topic,) = request.topics
    (partition,) = topic.partitions
    return topic.topic_id, partition


def respond(request: Message, topic_id: bytes, index: int, answer: Message | ValidationError) -> Message:
    form = FORMS[type(request)]
    if isinstance(answer, ValidationError):
        answer = form.partition_result(partition=index, error_code=answer.error, error_message=answer.message)
    made: Message = form.response(results=[form.result(topic_id=topic_id, partitions=[answer])])
    return made


def error_response(request: Message, error: ErrorCode) -> Message:
    """Returns the error response to a request that no shard of this broker can handle."""
    topic_id, partition = only_partition(request)
    return respond(request, topic_id, partition.partition, ValidationError(error, MESSAGES.get(error, error.name)))


MESSAGES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
}
