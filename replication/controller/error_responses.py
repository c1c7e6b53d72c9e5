"""Error responses for a whole request: the fields of each response that carry them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.apis import APIS
from ...protocol.messages import alter_configs as legacy
from ...protocol.messages import incremental_alter_configs as incremental
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataResponse,
    EntryDataResponse,
)
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ...protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ...protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ...protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from ...protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.schema import Message
from .maintenance import (
    BalanceLeadersRequest,
    ElectUncleanLeadersRequest,
    FenceBrokerRequest,
    MaintenanceResponse,
    MoveLeadersRequest,
    WriteNoOpRequest,
)
from .result import RequestError
from .security.delegation_tokens import RemoveExpiredTokensRequest, RemoveExpiredTokensResponse


def error_response(request: Message, request_error: RequestError) -> Message:
    """Returns the error response: in its top-level error code if it has one, else in that of each requested item."""
    special = _SPECIAL.get(type(request))
    if special is not None:
        return special(request, request_error)
    key = type(request).SCHEMA.key
    assert key is not None
    response: Any = APIS[key].response()
    response.error_code = request_error.code
    if hasattr(response, "error_message"):
        response.error_message = request_error.message
    return _as_message(response)


def _as_message(response: Any) -> Message:
    assert isinstance(response, Message)
    return response


def _create_topics(request: CreateTopicsRequest, request_error: RequestError) -> Message:
    topics = [
        CreatableTopicResult(
            name=topic.name, error_code=request_error.code, error_message=request_error.message, configs=[]
        )
        for topic in request.topics
    ]
    return CreateTopicsResponse(topics=topics)


def _delete_topics(request: DeleteTopicsRequest, request_error: RequestError) -> Message:
    named = [DeletableTopicResult(name=name, error_code=request_error.code) for name in request.topic_names]
    described = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=request_error.code)
        for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=named + described)


def _create_partitions(request: CreatePartitionsRequest, request_error: RequestError) -> Message:
    results = [
        CreatePartitionsTopicResult(name=topic.name, error_code=request_error.code, error_message=request_error.message)
        for topic in request.topics
    ]
    return CreatePartitionsResponse(results=results)


def _elect_leaders(request: ElectLeadersRequest, request_error: RequestError) -> Message:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=request_error.code, error_message=request_error.message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=request_error.code, replica_election_results=results)


def _alter_reassignments(request: AlterPartitionReassignmentsRequest, request_error: RequestError) -> Message:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index,
                    error_code=request_error.code,
                    error_message=request_error.message,
                )
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=request_error.code,
        error_message=request_error.message,
        responses=responses,
    )


def _alter_configs(request: legacy.AlterConfigsRequest, request_error: RequestError) -> Message:
    responses = [
        legacy.AlterConfigsResourceResponse(
            error_code=request_error.code,
            error_message=request_error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    ]
    return legacy.AlterConfigsResponse(responses=responses)


def _incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, request_error: RequestError
) -> Message:
    responses = [
        incremental.AlterConfigsResourceResponse(
            error_code=request_error.code,
            error_message=request_error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    ]
    return incremental.IncrementalAlterConfigsResponse(responses=responses)


def _create_acls(request: CreateAclsRequest, request_error: RequestError) -> Message:
    results = [
        AclCreationResult(error_code=request_error.code, error_message=request_error.message) for _ in request.creations
    ]
    return CreateAclsResponse(results=results)


def _delete_acls(request: DeleteAclsRequest, request_error: RequestError) -> Message:
    results = [
        DeleteAclsFilterResult(error_code=request_error.code, error_message=request_error.message)
        for _ in request.filters
    ]
    return DeleteAclsResponse(filter_results=results)


def _alter_client_quotas(request: AlterClientQuotasRequest, request_error: RequestError) -> Message:
    entries = [
        EntryDataResponse(
            error_code=request_error.code,
            error_message=request_error.message,
            entity=[EntityDataResponse(part.entity_type, part.entity_name) for part in entry.entity],
        )
        for entry in request.entries
    ]
    return AlterClientQuotasResponse(entries=entries)


def _alter_scram(request: AlterUserScramCredentialsRequest, request_error: RequestError) -> Message:
    users = sorted({change.name for change in request.deletions} | {change.name for change in request.upsertions})
    results = [
        AlterUserScramCredentialsResult(user=name, error_code=request_error.code, error_message=request_error.message)
        for name in users
    ]
    return AlterUserScramCredentialsResponse(results=results)


def _maintenance(request: Message, request_error: RequestError) -> Message:
    return MaintenanceResponse(error_code=request_error.code)


_SPECIAL: dict[type[Message], Callable[[Any, RequestError], Message]] = {
    AlterClientQuotasRequest: _alter_client_quotas,
    AlterPartitionReassignmentsRequest: _alter_reassignments,
    AlterUserScramCredentialsRequest: _alter_scram,
    BalanceLeadersRequest: _maintenance,
    CreateAclsRequest: _create_acls,
    CreatePartitionsRequest: _create_partitions,
    CreateTopicsRequest: _create_topics,
    DeleteAclsRequest: _delete_acls,
    DeleteTopicsRequest: _delete_topics,
    ElectLeadersRequest: _elect_leaders,
    ElectUncleanLeadersRequest: _maintenance,
    FenceBrokerRequest: _maintenance,
    incremental.IncrementalAlterConfigsRequest: _incremental_alter_configs,
    legacy.AlterConfigsRequest: _alter_configs,
    MoveLeadersRequest: _maintenance,
    RemoveExpiredTokensRequest: lambda request, request_error: RemoveExpiredTokensResponse(
        error_code=request_error.code
    ),
    WriteNoOpRequest: _maintenance,
}
