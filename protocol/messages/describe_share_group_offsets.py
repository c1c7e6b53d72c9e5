"""DescribeShareGroupOffsets (key 90): the start offsets of share groups.

A null list of topics asks for all. Read from the share coordinators (KIP-932).

Versions 0-1, all flexible. Additions by version:
- 1: lag (KIP-1226)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = wire(
        array(DescribeShareGroupOffsetsRequestTopic), nullable="0+"
    )


@message("0-1", flexible="0+", key=90)
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = wire(array(DescribeShareGroupOffsetsRequestGroup))


@struct
class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)
    leader_epoch: int = wire(INT32)
    lag: int = wire(INT64, "1+", default=-1)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = wire(
        array(DescribeShareGroupOffsetsResponsePartition)
    )


@struct
class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = wire(array(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@message("0-1", flexible="0+", key=90)
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = wire(array(DescribeShareGroupOffsetsResponseGroup))
