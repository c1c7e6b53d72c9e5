"""DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have, with their iterations.

No secret is shown. Null asks for all users; RESOURCE_NOT_FOUND for one without credentials (KIP-554).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class UserName(Message):
    name: str = wire(STRING)


@message("0", flexible="0+", key=50)
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
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
