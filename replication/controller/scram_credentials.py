"""Decisions about SCRAM credentials (KIP-554).

A user stands in a request once; a user that stands in it twice is changed in nothing. The response names the users
that were changed first, deletions before upsertions, then the others with their errors.
"""

from __future__ import annotations

from ...metadata.credentials import BY_CODE, MAX_ITERATIONS, MIN_ITERATIONS, credential_of
from ...metadata.metadata_version import SCRAM
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.schema import Message
from .result import ApiError, ControllerResult
from .state import ControllerState

_NOT_SUPPORTED = ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
_TWICE = ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NO_NAME = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_NO_MECHANISM = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NOT_THERE = ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest, version: int
) -> ControllerResult:
    changes: dict[str, Change] = {}
    errors: dict[str, ApiError] = {}
    wanted: list[Change] = [*request.deletions, *request.upsertions]
    for change in wanted:
        name = change.name
        if name in errors:
            continue
        error = _TWICE if changes.pop(name, None) is not None else _error(state, change)
        if error is None:
            changes[name] = change
        else:
            errors[name] = error
    results = [AlterUserScramCredentialsResult(user=name, error_message=None) for name in changes]
    results += [
        AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
        for name, error in errors.items()
    ]
    records = [_record(change) for change in changes.values()]
    return ControllerResult(records, AlterUserScramCredentialsResponse(results=results))


def _error(state: ControllerState, change: Change) -> ApiError | None:
    if state.image.features.metadata_version < SCRAM:
        return _NOT_SUPPORTED
    if not change.name:
        return _NO_NAME
    if change.mechanism not in BY_CODE:
        return _NO_MECHANISM
    if isinstance(change, ScramCredentialDeletion):
        return None if (change.name, change.mechanism) in state.image.scram else _NOT_THERE
    if change.iterations < MIN_ITERATIONS:
        return _TOO_FEW
    return _TOO_MANY if change.iterations > MAX_ITERATIONS else None


def _record(change: Change) -> Message:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    mechanism = BY_CODE[change.mechanism]
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    credential = credential_of(mechanism, salted, salt, change.iterations)
    return UserScramCredentialRecord(name=change.name, mechanism=mechanism.code, **credential._asdict())
