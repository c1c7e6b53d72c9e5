"""Decisions about access rules: CreateAcls and DeleteAcls."""

from __future__ import annotations

from ...metadata.acls import CLUSTER_NAME, AclFilter, ResourceType, fault_of_rule
from ...metadata.image import AclImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ...protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ...protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.schema import Message
from ..random_source import random_uuid
from .result import MAX_RECORDS_PER_REQUEST, ControllerResult, RequestError
from .state import ControllerState

#: Kafka's words.
_NO_AUTHORIZER = "No Authorizer is configured."


def create_acls(state: ControllerState, request: CreateAclsRequest, version: int) -> ControllerResult:
    """Handles CreateAcls. A rule that exists, or that the request names twice, is a success without a record."""
    _check_enabled(state)
    response = CreateAclsResponse()
    records: dict[AclImage, Message] = {}
    for creation in request.creations:
        rule = _rule(creation)
        fault = _fault_of_request(rule) or fault_of_rule(rule)
        if fault is not None:
            response.results.append(AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault))
            continue
        response.results.append(AclCreationResult(error_message=None))
        if rule not in state.acls and rule not in records:
            records[rule] = AccessControlEntryRecord(id=random_uuid(state.rng), **rule._asdict())
    return ControllerResult(list(records.values()), response)


def delete_acls(state: ControllerState, request: DeleteAclsRequest, version: int) -> ControllerResult:
    """Handles DeleteAcls. A rule that several filters find is reported for each, and removed once."""
    _check_enabled(state)
    response = DeleteAclsResponse()
    records: dict[bytes, Message] = {}
    for asked in request.filters:
        wanted = filter_of(asked)
        fault = wanted.fault
        if fault is not None:
            result = DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault)
            response.filter_results.append(result)
            continue
        found = wanted.find(state.acls)
        for rule in found:
            acl_id = state.acls[rule]
            records[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
        if len(records) > MAX_RECORDS_PER_REQUEST:
            words = f"Cannot remove more than {MAX_RECORDS_PER_REQUEST} acls in a single delete operation."
            raise RequestError(ErrorCode.INVALID_REQUEST, words)
        matching = [DeleteAclsMatchingAcl(error_message=None, **rule._asdict()) for rule in found]
        response.filter_results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return ControllerResult(list(records.values()), response)


def filter_of(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _check_enabled(state: ControllerState) -> None:
    if not state.uses_acls:
        raise RequestError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def _rule(creation: AclCreation) -> AclImage:
    return AclImage(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _fault_of_request(rule: AclImage) -> str | None:
    """Returns what Kafka finds before it asks the controller."""
    if rule.resource_type == ResourceType.CLUSTER and rule.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None if rule.resource_name else "Invalid empty resource name"
