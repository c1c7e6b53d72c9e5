"""Error responses to whole requests of the controller: those of the schema, and where they depart from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.error_responses import error_response_to
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ...protocol.messages.delete_topics import DeleteTopicsRequest
from ...protocol.messages.elect_leaders import ElectLeadersRequest
from ...protocol.schema import Message
from .delegation_tokens import RemoveExpiredTokensRequest, RemoveExpiredTokensResponse
from .maintenance import (
    BalanceLeadersRequest,
    ElectUncleanLeadersRequest,
    FenceBrokerRequest,
    MaintenanceResponse,
    MoveLeadersRequest,
    WriteNoOpRequest,
)
from .result import RequestError


def error_response(request: Message, version: int, request_error: RequestError) -> Message:
    """Returns the error response: in its top-level error code if it has one, else in that of each requested item."""
    special = _SPECIAL.get(type(request))
    if special is not None:
        return special(request, version, request_error)
    return error_response_to(request, version, request_error.code, request_error.message)


def _everywhere(request: Message, version: int, request_error: RequestError) -> Any:
    """As in Kafka, the error is that of the request and of each item."""
    response: Any = error_response_to(request, version, request_error.code, request_error.message, at_items=True)
    response.error_code = request_error.code
    return response


def _alter_reassignments(
    request: AlterPartitionReassignmentsRequest, version: int, request_error: RequestError
) -> AlterPartitionReassignmentsResponse:
    response: AlterPartitionReassignmentsResponse = _everywhere(request, version, request_error)
    response.error_message = request_error.message
    response.allow_replication_factor_change = request.allow_replication_factor_change
    return response


def _delete_topics(request: DeleteTopicsRequest, version: int, request_error: RequestError) -> Message:
    return error_response_to(request, version, request_error.code)  # without words, as in Kafka


def _alter_scram(request: AlterUserScramCredentialsRequest, version: int, request_error: RequestError) -> Message:
    """Returns one result for each user, however often the request names it."""
    users = sorted({change.name for change in request.deletions} | {change.name for change in request.upsertions})
    results = [
        AlterUserScramCredentialsResult(user=name, error_code=request_error.code, error_message=request_error.message)
        for name in users
    ]
    return AlterUserScramCredentialsResponse(results=results)


def _maintenance(request: Message, version: int, request_error: RequestError) -> Message:
    return MaintenanceResponse(error_code=request_error.code)


def _remove_tokens(request: Message, version: int, request_error: RequestError) -> Message:
    return RemoveExpiredTokensResponse(error_code=request_error.code)


_SPECIAL: dict[type[Message], Callable[[Any, int, RequestError], Message]] = {
    AlterPartitionReassignmentsRequest: _alter_reassignments,
    AlterUserScramCredentialsRequest: _alter_scram,
    BalanceLeadersRequest: _maintenance,
    DeleteTopicsRequest: _delete_topics,
    ElectLeadersRequest: _everywhere,
    ElectUncleanLeadersRequest: _maintenance,
    FenceBrokerRequest: _maintenance,
    MoveLeadersRequest: _maintenance,
    RemoveExpiredTokensRequest: _remove_tokens,
    WriteNoOpRequest: _maintenance,
}
