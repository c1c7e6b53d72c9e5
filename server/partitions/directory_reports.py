"""Reports the log directories of replicas to the controller where the metadata has none or another one (KIP-858)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ...metadata.image import TopicIdPartition
    from ...protocol.schema import Message, Request, ResponseCallback
    from ...storage.directory import LogDirectory
    from .hosted_partition import HostedPartition

log = logging.getLogger("odradek.partitions")


class Controller(Protocol):
    """The controller that replicas' directories are reported to: this node's own, or the active one through it."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def is_alone(self) -> bool:
        """Whether no other node has taken part in the quorum."""

    def submit(self, request: Request, version: int, reply: ResponseCallback, /) -> None:
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
        from ...protocol.messages.assign_replicas_to_dirs import (  # for a broker with several directories
            AssignReplicasToDirsRequest,
            AssignReplicasToDirsRequestDirectory,
            AssignReplicasToDirsRequestPartition,
            AssignReplicasToDirsRequestTopic,
        )

        controller = self._controller
        directories: dict[bytes, dict[bytes, AssignReplicasToDirsRequestTopic]] = {}
        for (topic_id, index), directory in self._to_report.items():
            if directory.directory_id is not None:
                topics = directories.setdefault(directory.directory_id, {})
                topic = topics.setdefault(topic_id, AssignReplicasToDirsRequestTopic(topic_id))
                topic.partitions.append(AssignReplicasToDirsRequestPartition(index))
        self._to_report = {}
        request = AssignReplicasToDirsRequest(
            self._node_id,
            controller.broker_epoch,
            [AssignReplicasToDirsRequestDirectory(name, list(topics.values())) for name, topics in directories.items()],
        )
        controller.submit(request, request.newest_version(), _check_reported)


def _check_reported(response: Message) -> None:
    from ...protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse

    assert isinstance(response, AssignReplicasToDirsResponse)
    if response.error_code:
        log.error(
            "the controller rejected the assignment of replicas to log directories: %s",
            ErrorCode(response.error_code).name,
        )
