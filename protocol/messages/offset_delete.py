"""OffsetDelete (key 47): removes a group's positions for partitions.

GROUP_SUBSCRIBED_TO_TOPIC while members read the topic, NON_EMPTY_GROUP for a group that is not a consumer's
(KIP-496).

Version 0, never flexible.
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class OffsetDeleteRequestPartition(Message):
    partition_index: int = wire(INT32)


@struct
class OffsetDeleteRequestTopic(Message):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteRequestPartition] = wire(array(OffsetDeleteRequestPartition))


@message("0", key=47)
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
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
