"""The partitions hosted here, and the log directories that they are in.

A log directory that fails takes its partitions offline (KAFKA_STORAGE_ERROR); the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, ValuesView
from typing import TYPE_CHECKING

from ...metadata.image import TopicIdPartition, TopicPartition
from ...storage.files.open_files import LogDirectoryFailure
from ..runtime.background import BackgroundTasks
from .online_directories import write_checkpoints

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..runtime.clock import Clock
    from ..runtime.repeated_lines import RepeatedLines
    from .hosted_partition import HostedPartition
    from .unmade_partitions import UnmadePartitions

log = logging.getLogger("odradek.partitions")


class Partitions:
    """By topic and index, and by topic id and index.

    `unmade`: the partitions that are tried again until there is room for them. `on_directory_failed` is called after a
    directory has failed: without any, the broker cannot go on.
    """

    def __init__(
        self,
        directories: list[LogDirectory],
        unmade: UnmadePartitions,
        clock: Clock,
        lines: RepeatedLines,
        on_directory_failed: Callable[[LogDirectoryFailure], object],
    ) -> None:
        self.directories = directories
        self.unmade = unmade
        self._clock = clock
        self._lines = lines
        self._on_directory_failed = on_directory_failed
        self._by_name: dict[TopicPartition, HostedPartition] = {}
        self._by_id: dict[TopicIdPartition, HostedPartition] = {}
        #: Takes failures of background work on partitions.
        self.background = BackgroundTasks()
        #: True when the replicas in the directories have been opened.
        self.are_loaded = False
        #: By the name of the partition, and by its id: bound methods, since every request comes here.
        self.get = self._by_name.get
        self.get_by_id = self._by_id.get

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def values(self) -> ValuesView[HostedPartition]:
        """Returns a view of all partitions, without a copy."""
        return self._by_name.values()

    def in_directory(self, directory: LogDirectory) -> list[HostedPartition]:
        return [partition for partition in self._by_name.values() if partition.directory is directory]

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {(p.topic, p.index): p.role.high_watermark for p in self.in_directory(directory)}

    # ---- changes

    def add(self, hosted: HostedPartition) -> None:
        self._by_name[hosted.topic, hosted.index] = hosted
        self._by_id[hosted.topic_id, hosted.index] = hosted

    def drop(self, hosted: HostedPartition) -> None:
        """Forgets a replica, without a change of its own."""
        del self._by_name[hosted.topic, hosted.index]
        self._by_id.pop((hosted.topic_id, hosted.index), None)

    def remove(self, hosted: HostedPartition) -> None:
        """Removes a replica that is no longer this broker's. Its files go in the background."""
        self.drop(hosted)
        hosted.is_removed = True
        hosted.role.is_leader = False
        hosted.wake_all()
        if not hosted.offline:
            try:
                hosted.directory.discard(hosted.log, self._clock.now_ms())
            except LogDirectoryFailure as failure:
                self.directory_failed(failure)

    def directory_failed(self, failure: LogDirectoryFailure) -> None:
        """Takes a directory offline: its partitions answer KAFKA_STORAGE_ERROR from now on."""
        if failure.is_shortage:
            words = f"a request failed because no file descriptor was left: {failure}"
            self._lines.log(log, logging.ERROR, "", "shortage", words)
            return
        for directory in self.directories:
            if directory.path == failure.directory and directory.is_online:
                log.error("log directory %s is offline: %s", directory.path, failure)
                directory.fail()
                for hosted in self.in_directory(directory):
                    hosted.offline = True
                    hosted.wake_all()
        self._on_directory_failed(failure)

    # ---- shutdown

    def close(self, broker_epoch: int) -> None:
        """Closes every log, and marks in each directory that the shutdown was clean."""
        self.unmade.stop()
        for directory in self.directories:
            if directory.is_online:
                try:
                    self._close_directory(directory, broker_epoch)
                except LogDirectoryFailure as failure:
                    log.error("closing %s: %s", directory.path, failure)
                directory.close()

    def _close_directory(self, directory: LogDirectory, broker_epoch: int) -> None:
        hosted = self.in_directory(directory)
        for partition in hosted:
            partition.role.is_leader = False  # nothing is written any more, whatever a thread still has of it
        directory.close_logs((partition.log for partition in hosted), self._clock.now_ms())
        if self.are_loaded:
            write_checkpoints(directory, [partition.log for partition in hosted], self.high_watermarks(directory))
            directory.mark_clean_shutdown(broker_epoch)
