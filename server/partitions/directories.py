"""Log directories of a broker as a whole: those that fail to open are left out while another is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...metadata.image import TopicIdPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from ...protocol.schema import Message
from ...storage.directory import LogDirectory, checkpoints_of
from ...storage.files.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    write_offsets,
)
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.log import Log

if TYPE_CHECKING:
    from ...protocol.schema import ResponseCallback
    from .hosted_partition import HostedPartition


directories_log = logging.getLogger("odradek.broker")


def open_directories(paths: Iterable[str], opened: list[LogDirectory]) -> None:
    """Appends the directories that can be opened, as in Kafka. Raises LogDirectoryFailure when none can.

    The owner of the list closes them, also when this raises.
    """
    failures: list[LogDirectoryFailure] = []
    for path in paths:
        try:
            opened.append(LogDirectory.open(path))
        except LogDirectoryFailure as failure:
            directories_log.error("log directory %s is offline: %s", path, failure)
            failures.append(failure)
    if not opened:
        raise failures[0]


def write_checkpoints(directory: LogDirectory, logs: Sequence[Log], high_watermarks: dict[TopicPartition, int]) -> None:
    """Writes the checkpoints of all logs of a directory at a clean stop. Raises LogDirectoryFailure."""
    found = checkpoints_of(logs)
    write_offsets(directory.path, RECOVERY_POINTS, found.recovery_points)
    write_offsets(directory.path, LOG_START_OFFSETS, found.log_start_offsets)
    write_offsets(directory.path, HIGH_WATERMARKS, high_watermarks)


# Reports the log directories of replicas to the controller where the metadata has none or another one (KIP-858).


log = logging.getLogger("odradek.partitions")

_ASSIGN_VERSION = 0


class Controller(Protocol):
    """The controller that replicas' directories are reported to: this node's own, or the active one through it."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def is_alone(self) -> bool:
        """Whether no other node has taken part in the quorum."""

    def submit(self, request: Message, version: int, reply: ResponseCallback, /) -> None:
        """Has the active controller handle the request. `reply` is called with the response."""


class DirectoryReports:
    """The reports that are to be sent."""

    def __init__(self, node_id: int, controller: Controller) -> None:
        self._node_id = node_id
        self._controller = controller
        #: (topic id, index) -> the replica's directory.
        self._to_report: dict[TopicIdPartition, LogDirectory] = {}

    def add(self, hosted: HostedPartition) -> None:
        """Adds a report. It is sent when this image is published, together with the others of the image."""
        if not self._to_report:
            asyncio.get_running_loop().call_soon(self._send)
        self._to_report[hosted.topic_id, hosted.index] = hosted.directory

    def _send(self) -> None:
        controller = self._controller
        directories: dict[bytes, dict[bytes, TopicDataRequest]] = {}
        for (topic_id, index), directory in self._to_report.items():
            if directory.directory_id is not None:
                topics = directories.setdefault(directory.directory_id, {})
                topic = topics.setdefault(topic_id, TopicDataRequest(topic_id))
                topic.partitions.append(PartitionDataRequest(index))
        self._to_report = {}
        request = AssignReplicasToDirsRequest(
            self._node_id,
            controller.broker_epoch,
            [DirectoryDataRequest(name, list(topics.values())) for name, topics in directories.items()],
        )
        controller.submit(request, _ASSIGN_VERSION, _check_reported)


def _check_reported(response: Message) -> None:
    assert isinstance(response, AssignReplicasToDirsResponse)
    if response.error_code:
        log.error(
            "the controller rejected the assignment of replicas to log directories: %s",
            ErrorCode(response.error_code).name,
        )
