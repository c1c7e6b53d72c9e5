"""RemoveRaftVoter (key 81): takes a voter out of the KRaft quorum.

By id and directory id; the leader itself resigns when it is the one. VOTER_NOT_FOUND (KIP-853).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, UUID, Message, Request, message, wire


@message("0", flexible="0+", key=81)
class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+")
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)


@message("0", flexible="0+", key=81)
class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
