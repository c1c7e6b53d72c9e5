"""Decisions about access rules, quotas of clients, and credentials.

- `create_acls`, `delete_acls`: each rule, and each filter, succeeds or fails independently. Without an authorizer that uses
  the rules of the metadata log there are none (SECURITY_DISABLED).
- `alter_client_quotas` (KIP-546): the changes of one entity are made together or not at all; the entities of a request are
  independent. An entity that a request names twice is changed by its first entry and answered with an error, as in Kafka.
- `create_delegation_token`, `renew_delegation_token`, `expire_delegation_token` (KIP-48, KIP-373, KIP-900): the requests
  for tokens. The broker that the client is connected to checks who may request a token.
- `remove_expired_tokens`: the removal of tokens that have expired.
- `alter_user_scram_credentials` (KIP-554, KIP-900): sets and removes the SCRAM credentials of users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from ...metadata.acls import CLUSTER_NAME, AclFilter, ResourceType, fault_of_rule
from ...metadata.client_quotas import entity_error, value_error
from ...metadata.configs import Password
from ...metadata.credentials import (
    BY_CODE,
    MAX_ITERATIONS,
    MAX_TOKEN_BYTES,
    MAX_TOKEN_BYTES_PER_OWNER,
    MIN_ITERATIONS,
    TokenIds,
    credential_of,
    is_expired,
    may_renew,
    token_bytes,
)
from ...metadata.image import AclImage, DelegationTokenImage, QuotaEntity
from ...metadata.metadata_version import DELEGATION_TOKENS, SCRAM
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ...protocol.internal.cluster_metadata import EntityData as RecordEntity
from ...protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataResponse,
    OpData,
)
from ...protocol.messages.credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.schema import INT16, Message, struct, wire
from ...protocol.uuids import uuid_to_text
from .result import MAX_RECORDS_PER_REQUEST, ApiError, ControllerResult, RequestError
from .state import ControllerState, random_uuid

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


Entity = Mapping[str, str | None]


def alter_client_quotas(state: ControllerState, request: AlterClientQuotasRequest, version: int) -> ControllerResult:
    records: list[ClientQuotaRecord] = []
    errors: dict[QuotaEntity, str | None] = {}
    for entry in request.entries:
        entity = named(entry.entity)
        key = tuple(sorted(entity.items()))
        if key in errors or len({op.key for op in entry.ops}) < len(entry.ops):
            errors[key] = f"Ignoring duplicate entity {_shown(entity)}"
            continue
        errors[key] = entity_error(entity)
        if errors[key] is None:
            made = _altered(state, entity, key, entry.ops)
            if isinstance(made, str):
                errors[key] = made
            else:
                records += made
    response = AlterClientQuotasResponse(entries=[_respond(key, words) for key, words in errors.items()])
    return ControllerResult(records, response, validate_only=request.validate_only)


def named(entity: Sequence[EntityData]) -> dict[str, str | None]:
    """Returns the name of each kind in an entity; if a kind comes twice, the last one."""
    return {part.entity_type: part.entity_name for part in entity}


def _altered(
    state: ControllerState, entity: Entity, key: QuotaEntity, ops: Sequence[OpData]
) -> list[ClientQuotaRecord] | str:
    """Returns the records of what changes, or the error."""
    current: Mapping[str, float] = state.image.client_quotas.get(key, {})
    records = []
    for op in ops:
        if op.remove:
            if op.key in current:
                records.append(ClientQuotaRecord(entity=_parts(key), key=op.key, value=0.0, remove=True))
            continue
        wrong = value_error(entity, op.key, op.value)
        if wrong is not None:
            return wrong
        if current.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=_parts(key), key=op.key, value=op.value, remove=False))
    return records


def _parts(key: QuotaEntity) -> list[RecordEntity]:
    return [RecordEntity(entity_type=kind, entity_name=name) for kind, name in key]


def _respond(key: QuotaEntity, words: str | None) -> EntryDataResponse:
    return EntryDataResponse(
        error_code=ErrorCode.NONE if words is None else ErrorCode.INVALID_REQUEST,
        error_message=words,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in key],
    )


def _shown(entity: Entity) -> str:
    """Returns an entity as Kafka's error messages show it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in sorted(entity.items()))
    return f"ClientQuotaEntity(entries={{{parts}}})"


_SECRET_KEY = "delegation.token.secret.key"
_FOREVER_MS = 2**63 - 1


# ---- delegation tokens

#: Expired tokens that are removed at once; the next check removes the next ones.
MAX_REMOVED = 1000
_USER = "User"


@struct
class RemoveExpiredTokensRequest(Message):
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


_NOT_SUPPORTED = ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
_TWICE = ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NO_NAME = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_NO_MECHANISM = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NOT_THERE = ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


# ---- SCRAM credentials
#
# A user stands in a request once; a user that stands in it twice is changed in nothing. The response names the users
# that were changed first, deletions before upsertions, then the others with their errors.

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
