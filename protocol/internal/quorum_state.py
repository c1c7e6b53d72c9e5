"""The `quorum-state` file of a KRaft node: its epoch, the leader, and its vote.

It is JSON with the names of these fields and `data_version`, and is written before a vote response is sent (KIP-595).
Version 1 has the directory id of the candidate, and no longer the voters, which are in the log (KIP-853).
"""

from __future__ import annotations

from ..schema import INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@struct
class Voter(Message):
    voter_id: int = wire(INT32, "0")


@message("0-1", flexible="0+")
class QuorumStateData(Message):
    cluster_id: str = wire(STRING, "0")
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
    voted_id: int = wire(INT32, default=-1)
    voted_directory_id: bytes = wire(UUID, "1+")
    applied_offset: int = wire(INT64, "0")
    current_voters: list[Voter] | None = wire(array(Voter), "0", nullable="0")
