"""AlterUserScramCredentials (key 51): sets and removes users' SCRAM credentials.

The salted password comes from the client, never the password. A user named twice is DUPLICATE_RESOURCE; iterations
are bounded (KIP-554).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import BYTES, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


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
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
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
