"""The creation of new replicas."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ...storage.directory import replica_directory_name
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.partition_metadata import write_topic_id
from ...storage.files.room import check_room

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, PartitionImage, TopicPartition
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from .directory_choice import DirectoryChoice
    from .directory_reports import DirectoryReports
    from .hosted_partition import HostedPartition
    from .partitions import Partitions
    from .replica_opening import ReplicaOpening

log = logging.getLogger("odradek.partitions")


class ReplicaCreation:
    """Creates new replicas."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        lines: RepeatedLines,
        partitions: Partitions,
        opening: ReplicaOpening,
        directories: DirectoryChoice,
        reports: DirectoryReports,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._lines = lines
        self._partitions = partitions
        self._opening = opening
        self._directories = directories
        self._reports = reports

    def begin_image(self) -> None:
        """Prepares for the replicas that come with another image."""
        self._directories.begin()

    def forget_topic(self, name: str) -> None:
        self._opening.forget_topic(name)

    def create(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> HostedPartition | None:
        """Returns None where no directory is online, or the partition has to wait for room."""
        directory = self._directories.directory_for(registration)
        if directory is None:
            words = f"no log directory is online for {topic}-{index}"
            self._lines.log(log, logging.ERROR, "", "no log directory", words)
            return None
        path = f"{directory.path}/{replica_directory_name(topic, index)}"
        is_new = not os.path.lexists(path)
        try:
            check_room(directory.path)
            hosted = self._opening.open(directory, image, topic, index)
            write_topic_id(hosted.log.path, topic_id, sync=False)
        except (LogDirectoryFailure, OSError) as error:
            if not isinstance(error, LogDirectoryFailure):
                error = LogDirectoryFailure(directory.path, f"creating {topic}-{index}", error)
            self._not_made((topic, index), error, path if is_new else None)
            return None
        self._partitions.pending.made(topic, index)
        if directory.directory_id != registration.directory(self._node_id):
            self._reports.add(hosted)
        return hosted

    def _not_made(self, key: TopicPartition, failure: LogDirectoryFailure, new_path: str | None) -> None:
        """Handles a failed creation. A shortage of room or of descriptors takes no directory offline: the partition is
        tried again.
        """
        hosted = self._partitions.get(key)
        if hosted is not None:
            self._partitions.drop(hosted)
        if not (failure.is_full or failure.is_shortage):
            self._partitions.directory_failed(failure)
            return
        self._partitions.pending.add(key, failure, hosted.log if hosted is not None else None, new_path)
