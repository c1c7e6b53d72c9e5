"""The requests of users without permission, and the error codes that they receive."""

from __future__ import annotations

from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

USERS = {"admin": "admin-secret", "mallory": "mallory-secret"}


DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


#: Errors for a topic without Describe access: the same as for a topic that does not exist.
HIDDEN = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


#: Errors of a whole request, before the broker checks its items.
REFUSED = {ErrorCode.INVALID_REQUEST, ErrorCode.GROUP_ID_NOT_FOUND}


def codes_of(response: Any) -> set[int]:
    """Returns every error code in a response, at any depth and in any field."""
    if isinstance(response, list):
        return {code for one in response for code in codes_of(one)}
    if not isinstance(response, Message):
        return set()
    found: set[int] = set()
    for field in response.SCHEMA.fields:
        value = getattr(response, field.name)
        found |= {value} if field.name.endswith("error_code") else codes_of(value)
    return found
