"""What ShareFetch and ShareAcknowledge are refused for as a whole, with Kafka's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coordinator.share.partition import Refusal
from ..metadata.features import SHARE_VERSION
from ..protocol.errors import ErrorCode

if TYPE_CHECKING:
    from .dispatch import Call

#: A member draws its own id: a UUID as text.
MAX_MEMBER_ID_LENGTH = 36

_WORDS = {
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "The share session was not found.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session epoch is invalid.",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "The limit of share sessions has been reached.",
}


def words_of(error: ErrorCode) -> str:
    return _WORDS.get(error, error.name)


def is_enabled(call: Call) -> bool:
    return call.broker.image.features.level(SHARE_VERSION) > 0


def refuse(call: Call, group_id: str | None, member_id: str | None) -> Refusal | None:
    if not is_enabled(call):
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, words_of(ErrorCode.UNSUPPORTED_VERSION))
    if group_id is None:
        return Refusal(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        return Refusal(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return None
