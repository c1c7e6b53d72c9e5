"""The result of a controller's decision: records to commit, and the response that waits for the commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message

#: The maximum number of partitions that one request may create.
MAX_PARTITIONS_PER_REQUEST = 10_000
#: The maximum number of records of one request: they are one batch of the metadata log, committed atomically.
MAX_RECORDS_PER_REQUEST = 10_000
#: Kafka's error texts, for responses that need no specific message.
_WORDS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The throttling quota has been exceeded.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
}


class ControllerResult(NamedTuple):
    """The records and the response. The client gets the response when the records are committed and published.

    Nothing changes before.
    """

    records: Sequence[Message]
    response: Message
    #: Whether the records must be committed atomically. Those of fencing a broker need not be.
    atomic: bool = True
    #: The client asks only for validation; `Controller.handle` drops the records.
    validate_only: bool = False
    #: The level to which the quorum raises kraft.version, in its own records; 0 leaves it unchanged.
    kraft_version: int = 0


class ApiError(NamedTuple):
    """The error of one item of a request. The message is for people and may be None."""

    code: ErrorCode
    message: str | None = None


class RequestError(Exception):
    """An error for the whole request. The controller's dispatcher puts it into the right field of the response."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def in_own_words(code: ErrorCode) -> ApiError:
    return ApiError(code, _WORDS[code])
