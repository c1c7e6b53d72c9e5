"""UpdateRaftVoter (key 82): a voter tells the leader its listeners and KRaft versions.

Sent by each voter that finds itself recorded otherwise (KIP-853).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire
from .voter_listeners import VoterListener


@struct
class VoterVersions(Message):
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message("0", flexible="0+", key=82)
class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+")
    current_leader_epoch: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    listeners: list[VoterListener] = wire(array(VoterListener))
    kraft_version_feature: VoterVersions = wire(VoterVersions)


@struct
class CurrentLeader(Message):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
    host: str = wire(STRING)
    port: int = wire(INT32)


@message("0", flexible="0+", key=82)
class UpdateRaftVoterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    current_leader: CurrentLeader = wire(CurrentLeader, tag=0)
