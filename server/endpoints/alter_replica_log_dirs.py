"""AlterReplicaLogDirs: replicas move to another log directory of this broker (KIP-113).

The response means that a move has begun; DescribeLogDirs shows its progress. A directory that is not this broker's is
LOG_DIR_NOT_FOUND, one that is offline KAFKA_STORAGE_ERROR, a cordoned one takes nothing (KIP-1066), a partition that is not
here is REPLICA_NOT_AVAILABLE, and one that is nowhere UNKNOWN_TOPIC_OR_PARTITION.

Contract: `protocol/messages/alter_replica_log_dirs.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from ...metadata.acls import Operation
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...storage.directory import FUTURE_SUFFIX, LONGEST_NAME, LogDirectory, replica_directory_name
from ...storage.files.failures import LogDirectoryFailure
from ..access.authorization.usual_requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..partitions.cordoning import cordoned_directories
from ..replicas import moves

if TYPE_CHECKING:
    from ..services import Services

log = logging.getLogger("odradek.moves")

#: Imported with this file, on a thread.
PRELOADED = (moves,)
_SUFFIX_LENGTH = len(replica_directory_name("", 0, FUTURE_SUFFIX)) - len("-0")


def handle(services: Services, call: Call[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    cordoned = cordoned_directories(services.config, services.directories)
    found: dict[str, LogDirectory | ErrorCode] = {}
    for (topic, index), path in _wanted(call.request).items():
        if topic not in results:
            results[topic] = AlterReplicaLogDirTopicResult(topic_name=topic)
        if path not in found:
            found[path] = _directory(services, path)
        result = results[topic]
        error = _move(services, topic, index, found[path], cordoned)
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _rejected(
    call: Call[AlterReplicaLogDirsRequest], error: ErrorCode, message: str | None
) -> AlterReplicaLogDirsResponse:
    """Returns each partition once, under its topic, whichever directories name it."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for topic, index in _wanted(call.request):
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic))
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _directory(services: Services, path: str) -> LogDirectory | ErrorCode:
    directory = next((d for d in services.directories if d.path == path), None)
    if directory is None:
        configured = (os.path.abspath(name) for name in services.config.log_dirs)  # noqa: PTH100  (as LogDirectory has it)
        return ErrorCode.KAFKA_STORAGE_ERROR if path in configured else ErrorCode.LOG_DIR_NOT_FOUND
    return directory if directory.is_online else ErrorCode.KAFKA_STORAGE_ERROR


def _move(
    services: Services,
    topic: str,
    index: int,
    directory: LogDirectory | ErrorCode,
    cordoned: Collection[LogDirectory],
) -> ErrorCode:
    if len(topic) + len(str(index)) + 1 + _SUFFIX_LENGTH > LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if isinstance(directory, ErrorCode):
        return directory
    if directory in cordoned:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    hosted = services.partitions.hosted.get((topic, index))
    if hosted is None:
        exists = services.metadata.image.partition(topic, index) is not None
        return ErrorCode.REPLICA_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if hosted.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        services.replicas.moves().move(hosted, directory)
    except LogDirectoryFailure as failure:
        services.partitions.hosted.directory_failed(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


ENDPOINT: ApiEndpoint[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse] = ApiEndpoint(
    handle=handle, authorization=(on_cluster(Operation.ALTER),), reject=_rejected
)
