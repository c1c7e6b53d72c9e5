"""OffsetFetch (key 9): a group's committed positions.

Offset -1 means that no offset was committed. A null list of topics asks for every partition that the group has
committed. With `require_stable`, a partition with a transactional commit still open answers UNSTABLE_OFFSET_COMMIT,
to be asked again (KIP-447).

Versions 1-10, flexible from 6. Additions by version:
- 2: null asks for all; an error for the whole group
- 5: leader epoch of the position (KIP-320)
- 7: require_stable (KIP-447)
- 8: several groups in one request (KIP-709)
- 9: member and epoch, checked for the consumer protocol (KIP-848)
- 10: topics by id (KIP-848)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire


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
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
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
