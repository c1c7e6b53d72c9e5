"""AddRaftVoter (key 80): adds a voter to the KRaft quorum.

One change at a time (REQUEST_TIMED_OUT, DUPLICATE_VOTER). The new voter must be caught up and must support the current
kraft.version. The leader writes the new voter set to the log (KIP-853).

Versions 0-1, all flexible. Additions by version:
- 1: answered when committed, or as soon as it is written
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, UUID, Message, Request, array, message, wire
from .voter_listeners import VoterListener


@message("0-1", flexible="0+", key=80)
class AddRaftVoterRequest(Request["AddRaftVoterResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+")
    timeout_ms: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    listeners: list[VoterListener] = wire(array(VoterListener))
    ack_when_committed: bool = wire(BOOL, "1+", default=True)


@message("0-1", flexible="0+", key=80)
class AddRaftVoterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
