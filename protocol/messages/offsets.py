"""Committed offsets of groups: commits, in transactions too, fetches, deletion."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire

# OffsetCommit (key 8): a group's positions, written to `__consumer_offsets`.
#
# Answered after the record is committed. A member names its generation (classic) or epoch (consumer protocol), which
# fences it: ILLEGAL_GENERATION, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH. Generation -1 with no member is a commit from
# outside a group, taken only while the group is empty. The metadata string comes back as it was sent, up to
# `offset.metadata.max.bytes`.
#
# Versions 2-10, flexible from 8. Additions by version:
# - 5: no retention time, it is the broker's setting (KIP-211)
# - 6: leader epoch of the position (KIP-320)
# - 7: static members (KIP-345)
# - 9: for the consumer protocol too; GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848)
# - 10: topics by id (KIP-848)


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
class OffsetCommitRequest(Message):
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


# TxnOffsetCommit (key 28): positions committed as part of a transaction.
#
# They are pending until the transaction's marker comes. The producer's id and epoch fence it; a member also names its
# generation (KIP-447).
#
# Versions 0-6, flexible from 3. Additions by version:
# - 2: leader epoch of the position
# - 3: member, generation and instance id (KIP-447)
# - 4: may answer TRANSACTION_ABORTABLE (KIP-890)
# - 5: also adds the offsets to the transaction (KIP-890, part 2)
# - 6: topics by id; GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-1319)


@struct
class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, "2+", default=-1)
    committed_metadata: str | None = wire(STRING, nullable="0+")


@struct
class TxnOffsetCommitRequestTopic(Message):
    name: str = wire(STRING, "0-5")
    topic_id: bytes = wire(UUID, "6+")
    partitions: list[TxnOffsetCommitRequestPartition] = wire(array(TxnOffsetCommitRequestPartition))


@message("0-6", flexible="3+", key=28)
class TxnOffsetCommitRequest(Message):
    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id_or_member_epoch: int = wire(INT32, "3+", default=-1)
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire(array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class TxnOffsetCommitResponseTopic(Message):
    name: str = wire(STRING, "0-5")
    topic_id: bytes = wire(UUID, "6+")
    partitions: list[TxnOffsetCommitResponsePartition] = wire(array(TxnOffsetCommitResponsePartition))


@message("0-6", flexible="3+", key=28)
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = wire(array(TxnOffsetCommitResponseTopic))


# OffsetFetch (key 9): a group's committed positions.
#
# Offset -1 means that no offset was committed. A null list of topics asks for every partition that the group has
# committed. With `require_stable`, a partition with a transactional commit still open answers UNSTABLE_OFFSET_COMMIT,
# to be asked again (KIP-447).
#
# Versions 1-10, flexible from 6. Additions by version:
# - 2: null asks for all; an error for the whole group
# - 5: leader epoch of the position (KIP-320)
# - 7: require_stable (KIP-447)
# - 8: several groups in one request (KIP-709)
# - 9: member and epoch, checked for the consumer protocol (KIP-848)
# - 10: topics by id (KIP-848)


@struct
class OffsetFetchRequestTopic(Message):
    name: str = wire(STRING, "0-7")
    partition_indexes: list[int] = wire(array(INT32), "0-7")


@struct
class OffsetFetchRequestTopics(Message):
    name: str = wire(STRING, "8-9")
    topic_id: bytes = wire(UUID, "10+")
    partition_indexes: list[int] = wire(array(INT32), "8+")


@struct
class OffsetFetchRequestGroup(Message):
    group_id: str = wire(STRING, "8+")
    member_id: str | None = wire(STRING, "9+", nullable="9+", default=None)
    member_epoch: int = wire(INT32, "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = wire(array(OffsetFetchRequestTopics), "8+", nullable="8+")


@message("1-10", flexible="6+", key=9)
class OffsetFetchRequest(Message):
    group_id: str = wire(STRING, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = wire(array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = wire(array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = wire(BOOL, "7+")


@struct
class OffsetFetchResponsePartition(Message):
    partition_index: int = wire(INT32, "0-7")
    committed_offset: int = wire(INT64, "0-7")
    committed_leader_epoch: int = wire(INT32, "5-7", default=-1)
    metadata: str | None = wire(STRING, "0-7", nullable="0-7")
    error_code: int = wire(INT16, "0-7")


@struct
class OffsetFetchResponseTopic(Message):
    name: str = wire(STRING, "0-7")
    partitions: list[OffsetFetchResponsePartition] = wire(array(OffsetFetchResponsePartition), "0-7")


@struct
class OffsetFetchResponsePartitions(Message):
    partition_index: int = wire(INT32, "8+")
    committed_offset: int = wire(INT64, "8+")
    committed_leader_epoch: int = wire(INT32, "8+", default=-1)
    metadata: str | None = wire(STRING, "8+", nullable="8+")
    error_code: int = wire(INT16, "8+")


@struct
class OffsetFetchResponseTopics(Message):
    name: str = wire(STRING, "8-9")
    topic_id: bytes = wire(UUID, "10+")
    partitions: list[OffsetFetchResponsePartitions] = wire(array(OffsetFetchResponsePartitions), "8+")


@struct
class OffsetFetchResponseGroup(Message):
    group_id: str = wire(STRING, "8+")
    topics: list[OffsetFetchResponseTopics] = wire(array(OffsetFetchResponseTopics), "8+")
    error_code: int = wire(INT16, "8+")


@message("1-10", flexible="6+", key=9)
class OffsetFetchResponse(Message):
    throttle_time_ms: int = wire(INT32, "3+")
    topics: list[OffsetFetchResponseTopic] = wire(array(OffsetFetchResponseTopic), "0-7")
    error_code: int = wire(INT16, "2-7")
    groups: list[OffsetFetchResponseGroup] = wire(array(OffsetFetchResponseGroup), "8+")


# OffsetDelete (key 47): removes a group's positions for partitions.
#
# GROUP_SUBSCRIBED_TO_TOPIC while members read the topic, NON_EMPTY_GROUP for a group that is not a consumer's
# (KIP-496).
#
# Version 0, never flexible.


@struct
class OffsetDeleteRequestPartition(Message):
    partition_index: int = wire(INT32)


@struct
class OffsetDeleteRequestTopic(Message):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteRequestPartition] = wire(array(OffsetDeleteRequestPartition))


@message("0", key=47)
class OffsetDeleteRequest(Message):
    group_id: str = wire(STRING)
    topics: list[OffsetDeleteRequestTopic] = wire(array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class OffsetDeleteResponseTopic(Message):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteResponsePartition] = wire(array(OffsetDeleteResponsePartition))


@message("0", key=47)
class OffsetDeleteResponse(Message):
    error_code: int = wire(INT16)
    throttle_time_ms: int = wire(INT32)
    topics: list[OffsetDeleteResponseTopic] = wire(array(OffsetDeleteResponseTopic))
