"""Errors of an administrator: one family, with the broker's own words.

`RequestFailed` is the base of all. Without a response it is NoResponse, or LoginRejected where there is a reason. An error
code of a response is a `ResponseError`.
"""

from __future__ import annotations

from ..client.error_kinds import ErrorKind, kind_of_code
from ..client.errors import (
    CoordinatorError,
    InvalidOptions,
    LoginRejected,
    NoResponse,
    NoSuchNode,
    NotKafka,
    NotSupported,
    RequestFailed,
    UnknownNode,
)
from ..client.transient_errors import COORDINATOR_MOVES
from ..protocol.errors import ErrorCode

__all__ = [
    "CoordinatorError",
    "InvalidOptions",
    "LoginRejected",
    "NoResponse",
    "NoSuchNode",
    "NotKafka",
    "NotSupported",
    "RequestFailed",
    "ResponseError",
    "UnknownNode",
    "check",
]

#: Words for codes that many responses have without words; the others have those of their names.
_WORDS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The topic or partition does not exist",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader at the moment",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker does not lead the partition",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator loads",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "There is no coordinator at the moment",
    ErrorCode.NOT_COORDINATOR: "This broker is not the coordinator",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The name of the topic is not valid",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The user is not authorized to access the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The user is not authorized to access the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The user is not authorized for this operation on the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "The user is not authorized to access the transactional id",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic with this name exists already",
    ErrorCode.NOT_CONTROLLER: "This broker is not the controller",
    ErrorCode.SECURITY_DISABLED: "Security features are disabled",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group does not exist",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Members of the group are subscribed to the topic",
    ErrorCode.UNKNOWN_MEMBER_ID: "The group has members",
    ErrorCode.TOPIC_DELETION_DISABLED: "The deletion of topics is disabled",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactional id does not exist",
    ErrorCode.RESOURCE_NOT_FOUND: "The resource does not exist",
}


class ResponseError(RequestFailed):
    """An error code of a response. `subject` names the topic, group or other thing. `message`: the broker's words."""

    def __init__(self, subject: str, code: int, message: str | None = None, hint: str = "") -> None:
        self.subject = subject
        self.code = code
        self.message = message
        known = ErrorCode(code)
        name = known.name
        words = message or _WORDS.get(known) or name.replace("_", " ").capitalize()
        super().__init__(f"{subject}: {words.strip().rstrip('.')} ({name}){hint}")

    @property
    def is_of_moving_coordinator(self) -> bool:
        return self.code in COORDINATOR_MOVES

    @property
    def is_denial(self) -> bool:
        """Whether this user may not do or see it."""
        return kind_of_code(self.code) == ErrorKind.DENIED


def check(subject: str, code: int, message: str | None = None) -> None:
    """Raises ResponseError for the error code of a response."""
    if code:
        raise ResponseError(subject, code, message)
