"""Kinds of errors by what a person does about them, and the kind of each error code of Kafka and of librdkafka."""

from __future__ import annotations

from enum import Enum

_NOT_FOUND_CODES = frozenset((3, 69, 91, 100, 105))
_DENIED_CODES = frozenset((29, 30, 31, 33, 34, 53, 58, 65))
_UNREACHABLE_CODES = frozenset((7, 8, 13))
#: librdkafka's own codes, which are negative.
_NOT_FOUND_LOCAL = frozenset((-188, -190))
_UNREACHABLE_LOCAL = frozenset((-195, -193, -187, -185, -192))
_DENIED_LOCAL = frozenset((-169, -181))


class ErrorKind(Enum):
    """FAILED: none of the others. MISUSED: options or values that cannot be meant. NOT_FOUND: a topic, partition, group,
    transaction or context that does not exist. UNREACHABLE: no broker responds, or not in time. DENIED: authentication
    failed, or the authorizer denied the operation.
    """

    FAILED = "failed"
    MISUSED = "misused"
    NOT_FOUND = "not found"
    UNREACHABLE = "unreachable"
    DENIED = "denied"


def kind_of_code(code: int) -> ErrorKind:
    """Returns the kind of an error code of Kafka or librdkafka."""
    if code in _NOT_FOUND_CODES or code in _NOT_FOUND_LOCAL:
        return ErrorKind.NOT_FOUND
    if code in _DENIED_CODES or code in _DENIED_LOCAL:
        return ErrorKind.DENIED
    if code in _UNREACHABLE_CODES or code in _UNREACHABLE_LOCAL:
        return ErrorKind.UNREACHABLE
    return ErrorKind.FAILED
