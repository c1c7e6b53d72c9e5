"""Replicas that a start finds in the log directories, and new ones."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...metadata.image import TopicPartition
from ...storage.directory import DELETE_SUFFIX, LogDirectory, replica_directory_name
from ...storage.files.identity import write_topic_id
from ...storage.files.open_files import LogDirectoryFailure, check_room
from .replicas_on_disk import gone_replicas, is_ours, rename_stray

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, PartitionImage
    from ..runtime.clock import Clock
    from ..runtime.repeated_lines import RepeatedLines
    from .directory_reports import DirectoryReports
    from .hosted_partition import HostedPartition
    from .partitions import Partitions
    from .placement import ReplicaPlacement
    from .replica_opening import ReplicaOpening

log = logging.getLogger("odradek.partitions")


class ReplicaCreation:
    """Loads existing replicas and creates new ones."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        lines: RepeatedLines,
        partitions: Partitions,
        opening: ReplicaOpening,
        placement: ReplicaPlacement,
        reports: DirectoryReports,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._lines = lines
        self._partitions = partitions
        self._opening = opening
        self._placement = placement
        self._reports = reports

    def begin_image(self) -> None:
        """Prepares for the replicas that come with another image."""
        self._placement.begin()

    def forget_topic(self, name: str) -> None:
        self._opening.forget_topic(name)

    # ---- replicas on disk

    def load(self, image: MetadataImage) -> Iterator[None]:
        """Opens all replicas that the log directories hold."""
        for directory in self._partitions.directories:
            try:
                yield from self._load_directory(directory, image)
            except LogDirectoryFailure as failure:
                self._partitions.directory_failed(failure)
        self._partitions.are_loaded = True

    def _load_directory(self, directory: LogDirectory, image: MetadataImage) -> Iterator[None]:
        for note in directory.notes:
            log.warning(note)
        high_watermarks = directory.checkpoints.high_watermarks
        replicas = directory.replicas()
        began_s, opened = time.monotonic(), 0
        for replica in replicas:
            if replica.suffix == DELETE_SUFFIX:
                directory.schedule_delete(replica.path, self._clock.now_ms())
            elif not replica.suffix:
                key = (replica.topic, replica.partition)
                if is_ours(directory, replica, image, self._node_id) and self._partitions.get(key) is None:
                    self._opening.open(directory, image, *key, high_watermarks.get(key, 0))
                    opened += 1
                else:
                    rename_stray(directory, replica)
                yield
        how = "a clean shutdown" if directory.had_clean_shutdown else "an unclean shutdown"
        if opened:
            took_ms = (time.monotonic() - began_s) * 1000
            log.info("%s: %d logs opened after %s in %.0f ms", directory.path, opened, how, took_ms)
        directory.forget_checkpoints(gone_replicas(directory, replicas, image, self._node_id))

    # ---- new replicas

    def create(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> HostedPartition | None:
        """Returns None where no directory is online, or the partition has to wait for room."""
        directory = self._placement.directory_for(registration)
        if directory is None:
            words = f"no log directory is online for {topic}-{index}"
            self._lines.log(log, logging.ERROR, "", "no log directory", words)
            return None
        path = f"{directory.path}/{replica_directory_name(topic, index)}"
        is_new = not os.path.lexists(path)
        try:
            check_room(directory.path)
            hosted = self._opening.open(directory, image, topic, index, 0)
            write_topic_id(hosted.log.path, topic_id, sync=False)
        except (LogDirectoryFailure, OSError) as error:
            if not isinstance(error, LogDirectoryFailure):
                error = LogDirectoryFailure(directory.path, f"creating {topic}-{index}", error)
            self._not_made((topic, index), error, path if is_new else None)
            return None
        self._partitions.unmade.made(topic, index)
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
        self._partitions.unmade.add(key, failure, hosted.log if hosted is not None else None, new_path)
