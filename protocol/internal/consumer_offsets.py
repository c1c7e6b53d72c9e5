"""Records of `__consumer_offsets` for committed offsets and classic groups.

A record's key is its record type (the key of these tables, as an int16) and a key message of version 0. Its value is
the version, as an int16, and a value message; a null value is a tombstone. Types 0 and 1 are a committed offset, 2 a
group with its members and their assignments. Offsets are written in version 3 unless another is needed (1 if the
client set a retention time): 1 has `expire_timestamp`, 3 the leader epoch (KIP-320), 4 the topic id. Groups: 1
rebalance timeout, 2 the time of the state, 3 static members (KIP-345), 4 flexible, so that older brokers skip unknown
fields (KIP-915).
"""

from __future__ import annotations

from ..schema import BYTES, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@message("0", key=0)
class LegacyOffsetCommitKey(Message):
    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message("0", key=0)
class LegacyOffsetCommitValue(Message):
    offset: int = wire(INT64, "0")
    metadata: str = wire(STRING, "0")
    commit_timestamp: int = wire(INT64, "0")


@message("0", key=1)
class OffsetCommitKey(Message):
    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message("0-4", flexible="4+", key=1)
class OffsetCommitValue(Message):
    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, "3+", default=-1)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, "1", default=-1)
    topic_id: bytes = wire(UUID, "4+", tag=0)


@message("0", key=2)
class GroupMetadataKey(Message):
    group: str = wire(STRING, "0")


@struct
class MemberMetadata(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, "1+", default=-1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@message("0-4", flexible="4+", key=2)
class GroupMetadataValue(Message):
    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable="0+")
    leader: str | None = wire(STRING, nullable="0+")
    current_state_timestamp: int = wire(INT64, "2+", default=-1)
    members: list[MemberMetadata] = wire(array(MemberMetadata))
