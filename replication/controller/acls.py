"""Decides on CreateAcls and DeleteAcls: no authorizer, no access rules (SECURITY_DISABLED)."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_acls import CreateAclsRequest
from ...protocol.messages.delete_acls import DeleteAclsRequest
from .result import ControllerResult, RefusedRequest
from .state import ControllerState

#: Kafka's words.
_NO_AUTHORIZER = "No Authorizer is configured."


def create_acls(state: ControllerState, request: CreateAclsRequest, version: int) -> ControllerResult:
    raise RefusedRequest(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def delete_acls(state: ControllerState, request: DeleteAclsRequest, version: int) -> ControllerResult:
    raise RefusedRequest(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
