"""ElectLeaders (key 43): has leaders elected.

Type 0 gives leadership back to the preferred replica (ELECTION_NOT_NEEDED if it leads), type 1 elects any live
replica where no in-sync one is left, at the loss of records. Null asks for all partitions (KIP-460).

Versions 0-2, flexible from 2. Additions by version:
- 1: election types, an error for the whole response (KIP-460)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class ElectLeadersTopic(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@message("0-2", flexible="2+", key=43)
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    election_type: int = wire(INT8, "1+")
    topic_partitions: list[ElectLeadersTopic] | None = wire(array(ElectLeadersTopic), nullable="0+")
    timeout_ms: int = wire(INT32, default=60000)


@struct
class ElectionPartitionResult(Message):
    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@struct
class ReplicaElectionResult(Message):
    topic: str = wire(STRING)
    partition_result: list[ElectionPartitionResult] = wire(array(ElectionPartitionResult))


@message("0-2", flexible="2+", key=43)
class ElectLeadersResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "1+")
    replica_election_results: list[ReplicaElectionResult] = wire(array(ReplicaElectionResult))
