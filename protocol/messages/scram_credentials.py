"""SCRAM credentials of users: description and changes."""

from __future__ import annotations

from ..schema import BYTES, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, array, message, struct, wire

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
