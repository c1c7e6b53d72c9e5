"""DescribeLogDirs (key 35): the log directories of this broker and the size of what is in them.

A null list asks for all partitions. A future copy that is being moved has `is_future_key`; `offset_lag` tells how far
a replica is behind (KIP-113).

Versions 1-5, flexible from 2. Additions by version:
- 3: an error for the whole response
- 4: total and usable bytes of each volume (KIP-827)
- 5: whether the directory is cordoned, taking no new partitions (KIP-1066)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@struct
class DescribableLogDirTopic(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@message("1-5", flexible="2+", key=35)
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    topics: list[DescribableLogDirTopic] | None = wire(array(DescribableLogDirTopic), nullable="0+")


@struct
class DescribeLogDirsPartition(Message):
    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


@struct
class DescribeLogDirsTopic(Message):
    name: str = wire(STRING)
    partitions: list[DescribeLogDirsPartition] = wire(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult(Message):
    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: list[DescribeLogDirsTopic] = wire(array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, "4+", default=-1)
    usable_bytes: int = wire(INT64, "4+", default=-1)
    is_cordoned: bool = wire(BOOL, "5+")


@message("1-5", flexible="2+", key=35)
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "3+")
    results: list[DescribeLogDirsResult] = wire(array(DescribeLogDirsResult))
