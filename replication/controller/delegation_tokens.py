"""Decisions about delegation tokens (KIP-48, KIP-900)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ...metadata.configs import Password
from ...metadata.delegation_tokens import (
    MAX_TOKEN_BYTES,
    MAX_TOKEN_BYTES_PER_OWNER,
    TokenIds,
    is_expired,
    may_renew,
    token_bytes,
)
from ...metadata.image import DelegationTokenImage
from ...metadata.metadata_version import DELEGATION_TOKENS
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ...protocol.schema import INT16, Message, Request, struct, wire
from ...protocol.uuids import uuid_to_text
from ..random_source import random_uuid
from .result import ControllerResult
from .state import ControllerState

_SECRET_KEY = "delegation.token.secret.key"
_FOREVER_MS = 2**63 - 1
#: Expired tokens that are removed at once; the next check removes the next ones.
MAX_REMOVED = 1000
_USER = "User"


@struct
class RemoveExpiredTokensRequest(Request["RemoveExpiredTokensResponse"]):
    """Removes tokens that have expired (delegation.token.expiry.check.interval.ms); never sent over the wire."""


@struct
class RemoveExpiredTokensResponse(Message):
    error_code: int = wire(INT16)


def create_delegation_token(
    state: ControllerState, request: CreateDelegationTokenRequest, version: int
) -> ControllerResult:
    requester, now_ms = state.caller.principal, state.caller.now_ms
    owner = (
        f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
        if request.owner_principal_name
        else requester
    )
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    response.token_requester_principal_type, _, response.token_requester_principal_name = requester.partition(":")
    error = _not_enabled(state)
    if not error and any(renewer.principal_type != _USER for renewer in request.renewers):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
    if not error and not _has_room(state, owner, (owner, requester, *renewers)):
        error = ErrorCode.POLICY_VIOLATION
    if error:
        response.error_code = error
        return ControllerResult([], response)
    lifetime_ms = _bounded(_milliseconds(state, "delegation.token.max.lifetime.ms"), request.max_lifetime_ms)
    token_id = uuid_to_text(random_uuid(state.rng))
    response.issue_timestamp_ms = now_ms
    response.max_timestamp_ms = _after(now_ms, lifetime_ms)
    renewed_ms = _milliseconds(state, "delegation.token.expiry.time.ms")
    response.expiry_timestamp_ms = min(response.max_timestamp_ms, _after(now_ms, renewed_ms))
    response.token_id = token_id
    response.hmac = _ids(state).hmac_of(token_id)
    record = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=renewers,
        issue_timestamp=now_ms,
        max_timestamp=response.max_timestamp_ms,
        expiration_timestamp=response.expiry_timestamp_ms,
        token_id=token_id,
    )
    return ControllerResult([record], response)


def _has_room(state: ControllerState, owner: str, principals: Sequence[str]) -> bool:
    """Returns whether a token with these principals is within the limits of one token and of its owner's tokens."""
    size = token_bytes(principals)
    return size <= MAX_TOKEN_BYTES and state.token_sizes.of(owner) + size <= MAX_TOKEN_BYTES_PER_OWNER


def renew_delegation_token(
    state: ControllerState, request: RenewDelegationTokenRequest, version: int
) -> ControllerResult:
    now_ms = state.caller.now_ms
    found = _found(state, request.hmac)
    if isinstance(found, ErrorCode):
        return ControllerResult([], RenewDelegationTokenResponse(error_code=found))
    token_id, token = found
    if is_expired(token, now_ms):
        return ControllerResult([], RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not may_renew(token, state.caller.principal):
        code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        return ControllerResult([], RenewDelegationTokenResponse(error_code=code))
    period_ms = _bounded(_milliseconds(state, "delegation.token.expiry.time.ms"), request.renew_period_ms)
    expiry_ms = min(token.max_timestamp, _after(now_ms, period_ms))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return ControllerResult([_changed(token_id, token, expiry_ms)], response)


def expire_delegation_token(
    state: ControllerState, request: ExpireDelegationTokenRequest, version: int
) -> ControllerResult:
    now_ms = state.caller.now_ms
    found = _found(state, request.hmac)
    if isinstance(found, ErrorCode):
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=found))
    token_id, token = found
    if not may_renew(token, state.caller.principal):
        code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=code))
    if request.expiry_time_period_ms < 0:
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
        return ControllerResult([RemoveDelegationTokenRecord(token_id=token_id)], response)
    if is_expired(token, now_ms):
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expiry_ms = min(token.max_timestamp, _after(now_ms, request.expiry_time_period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return ControllerResult([_changed(token_id, token, expiry_ms)], response)


def remove_expired_tokens(
    state: ControllerState, request: RemoveExpiredTokensRequest, version: int
) -> ControllerResult:
    tokens = state.image.delegation_tokens.items()
    expired = (token_id for token_id, token in tokens if is_expired(token, state.caller.now_ms))
    records: Sequence[Message] = [
        RemoveDelegationTokenRecord(token_id=token_id) for token_id in islice(expired, MAX_REMOVED)
    ]
    return ControllerResult(records, RemoveExpiredTokensResponse(), atomic=False)


def _not_enabled(state: ControllerState) -> ErrorCode:
    if not _secret(state):
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if state.image.features.metadata_version < DELEGATION_TOKENS:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _found(state: ControllerState, hmac: bytes) -> tuple[str, DelegationTokenImage] | ErrorCode:
    error = _not_enabled(state)
    if error:
        return error
    tokens = state.image.delegation_tokens
    token_id = _ids(state).find(tokens, bytes(hmac))
    return (token_id, tokens[token_id]) if token_id is not None else ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def _secret(state: ControllerState) -> str:
    password = state.values.get(_SECRET_KEY)
    return password.value if isinstance(password, Password) else ""


def _ids(state: ControllerState) -> TokenIds:
    secret = _secret(state)
    if state.token_ids is None or state.token_ids.secret != secret:
        state.token_ids = TokenIds(secret)
    return state.token_ids


def _changed(token_id: str, token: DelegationTokenImage, expiry_ms: int) -> DelegationTokenRecord:
    fields = token._replace(expiration_timestamp=expiry_ms)._asdict() | {"renewers": list(token.renewers)}
    return DelegationTokenRecord(token_id=token_id, **fields)


def _milliseconds(state: ControllerState, key: str) -> int:
    value = state.values.get(key)
    assert isinstance(value, int)
    return value


def _bounded(most_ms: int, asked_ms: int) -> int:
    return min(most_ms, asked_ms) if asked_ms > 0 else most_ms


def _after(now_ms: int, period_ms: int) -> int:
    return min(_FOREVER_MS, now_ms + period_ms)
