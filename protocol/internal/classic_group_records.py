"""Records of `__consumer_offsets` that classic groups and committed offsets write."""

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
