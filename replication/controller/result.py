"""What a decision of the controller comes to: records to be committed, and the answer that waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message

#: More partitions than this one request may not create.
MAX_PARTITIONS_PER_REQUEST = 10_000
#: More records than this one request may not make: they are one batch of the metadata log, committed whole or not at all.
MAX_RECORDS_PER_REQUEST = 10_000


class ControllerResult(NamedTuple):
    """The response is given to its client when the records are committed and published; nothing is changed before."""

    records: Sequence[Message]
    response: Message
    #: Whether the records must be committed whole. Those of a broker that is fenced may go in parts.
    atomic: bool = True
    #: The client only asks whether it could be done; `Controller.handle` drops the records.
    validate_only: bool = False
    #: To this the quorum is to raise kraft.version, in records of its own; 0 leaves it as it is.
    kraft_version: int = 0


class ApiError(NamedTuple):
    """Why one thing of a request cannot be; the message is for people and may be None."""

    code: ErrorCode
    message: str | None = None


class RefusedRequest(Exception):
    """The whole request is refused; the dispatcher of the controller puts this in the place the response has for it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


#: Kafka's own words for errors, where an answer shows them because nothing more is to be said.
_WORDS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
}


def in_own_words(code: ErrorCode) -> ApiError:
    return ApiError(code, _WORDS[code])
