"""Credentials that brokers keep: SCRAM credentials of users, and delegation tokens."""

from __future__ import annotations

from ..schema import BYTES, ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, Message, array, message, struct, wire

# DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have, with their iterations.
#
# No secret is shown. Null asks for all users; RESOURCE_NOT_FOUND for one without credentials (KIP-554).
#
# Version 0, flexible.


@struct
class UserName(Message):
    name: str = wire(STRING)


@message("0", flexible="0+", key=50)
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = wire(array(UserName), nullable="0+")


@struct
class CredentialInfo(Message):
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)


@struct
class DescribeUserScramCredentialsResult(Message):
    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    credential_infos: list[CredentialInfo] = wire(array(CredentialInfo))


@message("0", flexible="0+", key=50)
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = wire(array(DescribeUserScramCredentialsResult))


# AlterUserScramCredentials (key 51): sets and removes users' SCRAM credentials.
#
# The salted password comes from the client, never the password. A user named twice is DUPLICATE_RESOURCE; iterations
# are bounded (KIP-554).
#
# Version 0, flexible.


@struct
class ScramCredentialDeletion(Message):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@struct
class ScramCredentialUpsertion(Message):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)
    salt: bytes = wire(BYTES)
    salted_password: bytes = wire(BYTES)


@message("0", flexible="0+", key=51)
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = wire(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = wire(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult(Message):
    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@message("0", flexible="0+", key=51)
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[AlterUserScramCredentialsResult] = wire(array(AlterUserScramCredentialsResult))


# CreateDelegationToken (key 38): a token by which others may authenticate as its owner.
#
# Only on an authenticated connection that did not itself come by a token (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED). Needs
# `delegation.token.secret.key` (KIP-48).
#
# Versions 1-3, flexible from 2. Additions by version:
# - 3: for another owner (KIP-373)


@struct
class TokenPrincipal(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


@message("1-3", flexible="2+", key=38)
class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = wire(STRING, "3+", nullable="3+")
    owner_principal_name: str | None = wire(STRING, "3+", nullable="3+")
    renewers: list[TokenPrincipal] = wire(array(TokenPrincipal))
    max_lifetime_ms: int = wire(INT64)


@message("1-3", flexible="2+", key=38)
class CreateDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, "3+")
    token_requester_principal_name: str = wire(STRING, "3+")
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    max_timestamp_ms: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    throttle_time_ms: int = wire(INT32)


# RenewDelegationToken (key 39): puts off a token's expiry, up to its maximum lifetime.
#
# For its owner and its renewers (KIP-48).
#
# Versions 1-2, flexible from 2.


@message("1-2", flexible="2+", key=39)
class RenewDelegationTokenRequest(Message):
    hmac: bytes = wire(BYTES)
    renew_period_ms: int = wire(INT64)


@message("1-2", flexible="2+", key=39)
class RenewDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


# ExpireDelegationToken (key 40): brings a token's expiry forward, a negative period ends it at once.
#
# For its owner and its renewers (KIP-48).
#
# Versions 1-2, flexible from 2.


@message("1-2", flexible="2+", key=40)
class ExpireDelegationTokenRequest(Message):
    hmac: bytes = wire(BYTES)
    expiry_time_period_ms: int = wire(INT64)


@message("1-2", flexible="2+", key=40)
class ExpireDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


# DescribeDelegationToken (key 41): the tokens that the caller may see.
#
# Null owners ask for all; tokens of others are shown to those who may describe them (KIP-48).
#
# Versions 1-3, flexible from 2. Additions by version:
# - 3: the requester of the token (KIP-373)


@message("1-3", flexible="2+", key=41)
class DescribeDelegationTokenRequest(Message):
    owners: list[TokenPrincipal] | None = wire(array(TokenPrincipal), nullable="0+")


@struct
class DescribedDelegationToken(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, "3+")
    token_requester_principal_name: str = wire(STRING, "3+")
    issue_timestamp: int = wire(INT64)
    expiry_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    renewers: list[TokenPrincipal] = wire(array(TokenPrincipal))


@message("1-3", flexible="2+", key=41)
class DescribeDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    tokens: list[DescribedDelegationToken] = wire(array(DescribedDelegationToken))
    throttle_time_ms: int = wire(INT32)
