"""Responses to requests that the controller has not decided: it is not active, or it failed."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message, Request
from ...replication.controller.controller import error_response
from ...replication.controller.result import RequestError


def not_controller(request: Request, version: int) -> Message:
    return error_response(request, version, RequestError(ErrorCode.NOT_CONTROLLER))


def failed_here(request: Request, version: int) -> Message:
    return error_response(request, version, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR))
