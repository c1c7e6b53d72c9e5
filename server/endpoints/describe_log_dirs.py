"""DescribeLogDirs: the replicas in each log directory, and its free space.

Null for the topics is every partition. A replica that is on its way from another directory is shown where it goes as a
future one, with what it has still to copy as its lag (KIP-113). The space is that of the file system
(KIP-827). A cordoned directory takes no new replicas (KIP-1066). A directory that has failed is shown by its
error alone. The metadata log is not shown.

Contract: `protocol/messages/describe_log_dirs.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...metadata.acls import Operation
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...storage.directory import LogDirectory
from ..access.authorization.usual_requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..partitions.cordoning import cordoned_directories

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, call: Call[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    request = call.request
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    cordoned = cordoned_directories(services.config, services.directories)
    by_path = {directory.path: directory for directory in services.directories}
    results = [
        _described(services, by_path[path], asked, by_path[path] in cordoned) if path in by_path else _offline(path)
        for path in _configured(services.config.log_dirs)
    ]
    return DescribeLogDirsResponse(results=results)


def _configured(names: Iterable[str]) -> Sequence[str]:
    return list(dict.fromkeys(os.path.abspath(name) for name in names))  # noqa: PTH100  (as LogDirectory has it)


def _offline(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)


def _described(
    services: Services, directory: LogDirectory, asked: set[tuple[str, int]] | None, is_cordoned: bool
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return _offline(directory.path)
    try:
        space = os.statvfs(directory.path)
    except OSError:
        return _offline(directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic, partition in _partitions(services, directory, asked):
        topics.setdefault(topic, DescribeLogDirsTopic(name=topic)).partitions.append(partition)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=space.f_frsize * space.f_blocks,
        usable_bytes=space.f_frsize * space.f_bavail,
        is_cordoned=is_cordoned,
    )


def _partitions(
    services: Services, directory: LogDirectory, asked: set[tuple[str, int]] | None
) -> Iterable[tuple[str, DescribeLogDirsPartition]]:
    for hosted in services.partitions.hosted.in_directory(directory):
        if asked is not None and (hosted.topic, hosted.index) not in asked:
            continue  # sizes and lags of 10,000 partitions take 50 ms
        lag = max(hosted.high_watermark - hosted.log_end_offset, 0)
        yield (
            hosted.topic,
            DescribeLogDirsPartition(partition_index=hosted.index, partition_size=hosted.log.size, offset_lag=lag),
        )
    moves = services.replicas.moves.made
    for move in moves.into(directory) if moves is not None else ():
        if asked is not None and (move.hosted.topic, move.hosted.index) not in asked:
            continue
        yield (
            move.hosted.topic,
            DescribeLogDirsPartition(
                partition_index=move.hosted.index,
                partition_size=move.future.size,
                offset_lag=move.offset_lag,
                is_future_key=True,
            ),
        )


ENDPOINT: ApiEndpoint[DescribeLogDirsRequest, DescribeLogDirsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(on_cluster(Operation.DESCRIBE),),
    most_items=100_000,  # a tool asks for the replicas that it moves
)
