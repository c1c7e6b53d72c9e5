"""Control records: markers of transactions, and records of KRaft's log and snapshots.

One record marks the end of a transaction (KIP-98). A new leader of the quorum writes LeaderChange as the first record of
its epoch (KIP-595). Version 1 has directory ids, but no release of Kafka writes or reads it. A snapshot begins with a
header and ends with a footer (KIP-630). KRaftVersion and Voters hold the kraft.version and the voters of the quorum
(KIP-853).
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, UINT16, UUID, Message, array, message, struct, wire


@message("0")
class ControlRecordTypeSchema(Message):
    type: int = wire(INT16)


@message("0")
class EndTxnMarker(Message):
    coordinator_epoch: int = wire(INT32)


@struct
class LeaderChangeVoter(Message):
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID, "1+")


@message("0-1", flexible="0+")
class LeaderChangeMessage(Message):
    version: int = wire(INT16)
    leader_id: int = wire(INT32)
    voters: list[LeaderChangeVoter] = wire(array(LeaderChangeVoter))
    granting_voters: list[LeaderChangeVoter] = wire(array(LeaderChangeVoter))


@message("0", flexible="0+")
class SnapshotHeaderRecord(Message):
    version: int = wire(INT16)
    last_contained_log_timestamp: int = wire(INT64)


@message("0", flexible="0+")
class SnapshotFooterRecord(Message):
    version: int = wire(INT16)


@message("0", flexible="0+")
class KRaftVersionRecord(Message):
    version: int = wire(INT16)
    kraft_version: int = wire(INT16)


@struct
class Endpoint(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@struct
class KRaftVersionFeature(Message):
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@struct
class VotersVoter(Message):
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    endpoints: list[Endpoint] = wire(array(Endpoint))
    kraft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)


@message("0", flexible="0+")
class VotersRecord(Message):
    version: int = wire(INT16)
    voters: list[VotersVoter] = wire(array(VotersVoter))
