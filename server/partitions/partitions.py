"""The partitions hosted here. A log directory that fails takes its partitions offline (KAFKA_STORAGE_ERROR); the
others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, ValuesView
from typing import TYPE_CHECKING

from ...metadata.image import TopicPartition
from ...storage.files.clean_replicas import CleanReplica
from ...storage.files.failures import LogDirectoryFailure
from ...storage.log.unopened import UnopenedLog
from ..runtime.background_tasks import BackgroundTasks
from ..runtime.gc_policy import GC_PAUSES
from .online_directories import write_checkpoints

if TYPE_CHECKING:
    from ...metadata.image import TopicIdPartition
    from ...storage.directory import LogDirectory, ReplicaDirectory
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from .hosted_partition import HostedPartition
    from .pending_partitions import PendingPartitions
    from .remote_port import RemotePort

log = logging.getLogger("odradek.partitions")


class Partitions:
    """By topic and index, and by topic id and index.

    `pending`: the partitions that are tried again until there is room for them. `on_directory_failed` is called after a
    directory has failed: without any, the broker cannot go on.
    """

    def __init__(
        self,
        directories: list[LogDirectory],
        pending: PendingPartitions,
        clock: Clock,
        lines: RepeatedLines,
        on_directory_failed: Callable[[LogDirectoryFailure], object],
    ) -> None:
        self.directories = directories
        self.pending = pending
        self._clock = clock
        self._lines = lines
        self._on_directory_failed = on_directory_failed
        self._by_name: dict[TopicPartition, HostedPartition] = {}
        self._by_id: dict[TopicIdPartition, HostedPartition] = {}
        #: Called with each replica that is removed.
        self.on_removed: list[Callable[[HostedPartition], object]] = []
        #: Takes failures of background work on partitions.
        self.background = BackgroundTasks()
        #: Tiered storage; None where it is not enabled.
        self.remote: RemotePort | None = None
        #: True when the replicas in the directories have been opened.
        self.are_loaded = False
        #: Called with a partition of this broker that a request has named, and that may not be open yet.
        self.want: Callable[[TopicPartition], object] = _ignore
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

    def replicas_on_disk(self, suffix: str) -> Iterator[ReplicaDirectory]:
        """Yields the replicas of one kind in the directories that are online."""
        for directory in self.directories:
            if directory.is_online:
                yield from directory.replicas(suffix)

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {(p.topic, p.index): p.role.high_watermark for p in self.in_directory(directory)}

    # Changes.

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
        for function in self.on_removed:
            function(hosted)
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

    # Shutdown.

    def close(self, broker_epoch: int, *, clean: bool = True) -> None:
        """Closes every log, and marks in each directory that the shutdown was clean. Without `clean` nothing is flushed,
        noted or marked, as in a process that is killed.
        """
        self.pending.stop()
        with GC_PAUSES.pause():
            for directory in self.directories:
                if directory.is_online:
                    try:
                        self._close_directory(directory, broker_epoch, clean=clean)
                    except LogDirectoryFailure as failure:
                        log.error("closing %s: %s", directory.path, failure)
                    directory.close()

    def _close_directory(self, directory: LogDirectory, broker_epoch: int, *, clean: bool) -> None:
        hosted = self.in_directory(directory)
        for partition in hosted:
            partition.role.is_leader = False  # nothing is written any more, whatever a thread still has of it
            partition.wake_all()  # the replies that wait for a commit will not see it
        if not clean:
            for partition in hosted:
                partition.log.close(self._clock.now_ms(), clean=False)
            return
        for partition in hosted:
            if isinstance(partition.log, UnopenedLog) and not partition.log.is_complete:
                partition.open_log()
        logs, noted = [partition.log for partition in hosted], list[tuple[TopicPartition, CleanReplica]]()

        def note() -> None:
            if self.are_loaded:
                noted.extend(directory.notes_of((one.log, one.topic_id) for one in hosted))

        directory.close_logs(logs, self._clock.now_ms(), note)
        if self.are_loaded:
            write_checkpoints(directory, logs, self.high_watermarks(directory))
            directory.mark_clean_shutdown(broker_epoch, noted)


def _ignore(key: TopicPartition) -> None:
    """Before the first image nothing is opened."""
