"""OffsetCommit (key 8): a group's positions, written to `__consumer_offsets`.

Answered after the record is committed. A member names its generation (classic) or epoch (consumer protocol), which
fences it: ILLEGAL_GENERATION, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH. Generation -1 with no member is a commit from
outside a group, taken only while the group is empty. The metadata string comes back as it was sent, up to
`offset.metadata.max.bytes`.

Versions 2-10, flexible from 8. Additions by version:
- 5: no retention time, it is the broker's setting (KIP-211)
- 6: leader epoch of the position (KIP-320)
- 7: static members (KIP-345)
- 9: for the consumer protocol too; GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848)
- 10: topics by id (KIP-848)
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class OffsetCommitRequestPartition(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, "6+", default=-1)
    committed_metadata: str | None = wire(STRING, nullable="0+")


@struct
class OffsetCommitRequestTopic(Message):
    name: str = wire(STRING, "0-9")
    topic_id: bytes = wire(UUID, "10+")
    partitions: list[OffsetCommitRequestPartition] = wire(array(OffsetCommitRequestPartition))


@message("2-10", flexible="8+", key=8)
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, "1+", default=-1)
    member_id: str = wire(STRING, "1+")
    group_instance_id: str | None = wire(STRING, "7+", nullable="7+", default=None)
    retention_time_ms: int = wire(INT64, "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = wire(array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class OffsetCommitResponseTopic(Message):
    name: str = wire(STRING, "0-9")
    topic_id: bytes = wire(UUID, "10+")
    partitions: list[OffsetCommitResponsePartition] = wire(array(OffsetCommitResponsePartition))


@message("2-10", flexible="8+", key=8)
class OffsetCommitResponse(Message):
    throttle_time_ms: int = wire(INT32, "3+")
    topics: list[OffsetCommitResponseTopic] = wire(array(OffsetCommitResponseTopic))
