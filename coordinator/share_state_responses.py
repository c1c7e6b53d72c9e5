"""Responses of the persister: their forms by API, and the error response to a whole request.

The responses of the persister's requests, which all have the same form: topics and their partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Union

from ..protocol.error_responses import error_response_to
from ..protocol.errors import ErrorCode
from ..protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
    DeleteStatePartition,
)
from ..protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    InitializeStatePartition,
)
from ..protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStatePartitionResult,
    ReadStateResult,
)
from ..protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryResult,
)
from ..protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from ..protocol.messages.share_state_results import StatePartitionResult, StateResult
from ..protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
    WriteStatePartition,
)
from ..protocol.schema import Message
from .rejection import Rejection

#: A structure of the messages of one API. Its fields depend on the API.
Structure = Callable[..., Any]
ShareStateRequest = Union[
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
]
MESSAGES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
}


class Form(NamedTuple):
    topic: Structure
    partition: Structure
    response: Structure
    result: Structure
    partition_result: Structure


FORMS: dict[type[Message], Form] = {
    InitializeShareGroupStateRequest: Form(
        InitializeStateData,
        InitializeStatePartition,
        InitializeShareGroupStateResponse,
        StateResult,
        StatePartitionResult,
    ),
    ReadShareGroupStateRequest: Form(
        ReadStateData,
        ReadStatePartition,
        ReadShareGroupStateResponse,
        ReadStateResult,
        ReadStatePartitionResult,
    ),
    WriteShareGroupStateRequest: Form(
        WriteStateData,
        WriteStatePartition,
        WriteShareGroupStateResponse,
        StateResult,
        StatePartitionResult,
    ),
    ReadShareGroupStateSummaryRequest: Form(
        ReadStateData,
        ReadStatePartition,
        ReadShareGroupStateSummaryResponse,
        ReadStateSummaryResult,
        ReadStateSummaryPartitionResult,
    ),
    DeleteShareGroupStateRequest: Form(
        DeleteStateData,
        DeleteStatePartition,
        DeleteShareGroupStateResponse,
        StateResult,
        StatePartitionResult,
    ),
}


def only_partition(request: ShareStateRequest) -> tuple[bytes, Any]:
    """Returns the topic id and the partition data of a request for one partition."""
    (topic,) = request.topics
    (partition,) = topic.partitions
    return topic.topic_id, partition


def respond(request: Message, topic_id: bytes, index: int, response: Message | Rejection) -> Message:
    form = FORMS[type(request)]
    if isinstance(response, Rejection):
        response = form.partition_result(partition=index, error_code=response.error, error_message=response.message)
    made: Message = form.response(results=[form.result(topic_id=topic_id, partitions=[response])])
    return made


def share_state_error_response(request: Message, version: int, error: ErrorCode) -> Message:
    """Returns the error response to a request that no shard of this broker can handle."""
    return error_response_to(request, version, error, MESSAGES.get(error, error.name))
