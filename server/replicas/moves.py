"""Moves replicas from one log directory of this broker to another (KIP-113, AlterReplicaLogDirs).

The broker copies the replica's log into a *future* log beside it, `<topic>-<partition>.<hex>-future` in the target
directory, while the partition takes requests. When little is left to copy, the rest follows in one turn of the loop.
Then the future log replaces the old one, whose files are deleted in the background. The broker reports the replica's
directory to the controller. A crash leaves both logs, or an unfinished future one: the next start continues with it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.records.batch import read_header
from ...protocol.records.errors import BatchError
from ...storage.claims import GONE
from ...storage.directory import FUTURE_SUFFIX, LogDirectory, ReplicaDirectory
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.partition_metadata import read_topic_id, write_topic_id
from ...storage.log.log import Log
from ...storage.segments.snapshots import CorruptSnapshot
from ..runtime.background_tasks import RETRY_MS, BackgroundTasks

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ..partitions.directory_reports import DirectoryReports
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.thread_pools import ThreadPool
    from .cleaner import LogCleaner

log = logging.getLogger("odradek.moves")

#: Copied by a thread at a time.
CHUNK_BYTES = 1 << 20
#: The part that is copied in the turn of the loop in which the logs change places.
LAST_PART_BYTES = 1 << 20
#: How often a move looks whether the compaction of its log is over.
_CLEANER_POLL_S = 0.02
#: Between two looks whether a move that waits for its next attempt has ended.
_END_POLL_S = 0.1
#: The task's name in logs, metrics and health.
TASK = "move between log directories"


class _Ended(Exception):
    """The move has ended: its partition is removed or offline, or the move was cancelled."""


class ReplicaMove:
    """A replica that is being moved. `future` is its log in `destination`."""

    def __init__(self, hosted: HostedPartition, destination: LogDirectory, future: Log) -> None:
        self.hosted = hosted
        self.destination = destination
        self.future = future
        self.is_wanted = True
        self.task: asyncio.Task[None] | None = None
        #: The generation of the replica's log in which `future` had nothing else than that log; -1 before the first look.
        self.generation = -1

    @property
    def key(self) -> TopicPartition:
        return self.hosted.topic, self.hosted.index

    @property
    def next_offset(self) -> int:
        """The next offset to copy. The batch that has it may begin below the log's start."""
        return max(self.future.log_end_offset, self.hosted.log.local_log_start_offset)

    @property
    def offset_lag(self) -> int:
        return self.hosted.log_end_offset - self.future.log_end_offset


class ReplicaMoves:
    """The moves of replicas that are under way. `reports` tells the controller where a replica is afterwards."""

    def __init__(
        self,
        clock: Clock,
        partitions: Partitions,
        cleaner: LogCleaner,
        reports: DirectoryReports,
        disk: ThreadPool,
        background: BackgroundTasks | None = None,
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._cleaner = cleaner
        self._reports = reports
        self._disk = disk
        self._background = background or BackgroundTasks()
        self._moves: dict[HostedPartition, ReplicaMove] = {}
        self._at_a_time = asyncio.Semaphore(max(1, len(partitions.directories)))
        self._is_stopping = False

    def get(self, hosted: HostedPartition) -> ReplicaMove | None:
        return self._moves.get(hosted)

    def into(self, directory: LogDirectory) -> list[ReplicaMove]:
        return [move for move in self._moves.values() if move.destination is directory]

    def move(self, hosted: HostedPartition, destination: LogDirectory) -> None:
        """Begins a move and cancels a running one to another directory. A move to the present directory only cancels.

        Raises LogDirectoryFailure.
        """
        current = self._moves.get(hosted)
        if current is not None and current.destination is not destination:
            current.is_wanted = False
            del self._moves[hosted]
            current = None
        if current is None and destination is not hosted.directory:
            self._begin(hosted, destination, destination.future_path(hosted.topic, hosted.index))

    def resume(self) -> None:
        """Continues the moves that the last shutdown or crash interrupted, once the first image is applied."""
        for directory in self._partitions.directories:
            for replica in directory.replicas(ending=FUTURE_SUFFIX) if directory.is_online else ():
                if replica.suffix:
                    self._resume(directory, replica)

    def _resume(self, directory: LogDirectory, replica: ReplicaDirectory) -> None:
        hosted = self._partitions.get((replica.topic, replica.partition))
        wanted = hosted is not None and hosted.directory is not directory and hosted not in self._moves
        if hosted is not None and wanted and read_topic_id(replica.path) == hosted.topic_id:
            self._begin(hosted, directory, replica.path)
        else:
            directory.schedule_delete(replica.path, self._clock.now_ms())

    async def stop(self) -> None:
        """Stops all moves. Their future logs stay on the disk, flushed, for the next start."""
        self._is_stopping = True
        for move in self._moves.values():
            move.is_wanted = False
        await asyncio.gather(*(move.task for move in self._moves.values() if move.task is not None))

    def _begin(self, hosted: HostedPartition, destination: LogDirectory, path: str) -> None:
        now_ms = self._clock.now_ms()
        future = destination.open_log(hosted.topic, hosted.index, hosted.log.config, now_ms=now_ms, path=path)
        try:
            write_topic_id(path, hosted.topic_id, sync=False)
        except OSError as error:
            raise LogDirectoryFailure(destination.path, f"writing into {path}", error) from error
        move = self._moves[hosted] = ReplicaMove(hosted, destination, future)
        move.task = asyncio.create_task(self._run(move), name=f"move of {hosted.name}")

    # Copying.

    async def _run(self, move: ReplicaMove) -> None:
        hosted, began = move.hosted, move.hosted.directory.path
        try:
            while not await self._copied(move):
                await self._pause(move)
            log.info("%s moved from %s to %s", hosted.name, began, move.destination.path)
        except _Ended:
            self._end(move)
        except BatchError as damage:
            log.error("the move of %s to %s failed: %s", hosted.name, move.destination.path, damage)
            hosted.on_damage(hosted, damage)
            self._end(move)
        except LogDirectoryFailure as failure:
            self._forget(move)
            if not hosted.is_removed:
                self._partitions.directory_failed(failure)
        except Exception as failure:
            self._background.failed(TASK, failure)
            self._end(move)

    async def _copied(self, move: ReplicaMove) -> bool:
        """Copies. Returns whether it succeeded; a failure that may end is to be tried again."""
        try:
            async with self._at_a_time:
                await self._copy(move)
        except (_Ended, BatchError, LogDirectoryFailure):
            raise
        except Exception as failure:
            self._background.failed(TASK, failure)
            return False
        self._background.succeeded(TASK)
        return True

    async def _pause(self, move: ReplicaMove) -> None:
        """Waits for the next attempt, or the end of the move."""
        for _ in range(int(RETRY_MS / 1000 / _END_POLL_S)):
            await asyncio.sleep(_END_POLL_S)
            if not move.is_wanted or move.hosted.is_removed:
                return

    def _forget(self, move: ReplicaMove) -> None:
        if self._moves.get(move.hosted) is move:
            del self._moves[move.hosted]

    def _end(self, move: ReplicaMove) -> None:
        self._forget(move)
        if not move.destination.is_online:
            return
        try:
            if self._is_stopping and not move.hosted.is_removed:
                move.future.close(self._clock.now_ms())
            else:
                move.destination.discard(move.future, self._clock.now_ms())
        except LogDirectoryFailure as failure:
            self._partitions.directory_failed(failure)

    async def _copy(self, move: ReplicaMove) -> None:
        """Copies until the logs have changed places. No step waits between its check of the partition and its effect."""
        while True:
            self._align(move)
            if self._bytes_left(move) > LAST_PART_BYTES:
                await self._copy_chunk(move)
            elif (pending := move.future.prepare_flush()) is not None:
                await self._disk.run(pending.run)
                move.future.flushed(pending, self._clock.now_ms())
            elif move.destination.claims.reaches(move.key, 0):
                # A replica that was there before has left them.
                move.destination.claims.limit(move.key, GONE)
                await self._disk.run(move.destination.claims.lower)
            elif self._cleaner.works_on(move.hosted):
                await asyncio.sleep(_CLEANER_POLL_S)
            else:
                self._change_places(move)
                return

    def _align(self, move: ReplicaMove) -> None:
        """Cuts the future log like the log itself, which may have been truncated at both ends meanwhile."""
        hosted, future, now_ms = move.hosted, move.future, self._clock.now_ms()
        if not move.is_wanted or hosted.is_removed or hosted.offline or not move.destination.is_online:
            raise _Ended
        if future.log_end_offset < hosted.log.local_log_start_offset and hosted.log.config.remote_storage:
            _begin_after_remote(hosted.open_log(), future, now_ms)
        elif future.log_end_offset < hosted.log_start_offset:
            slice_ = hosted.open_log().read(hosted.log_start_offset, 1)
            base_offset = read_header(slice_.bytes()).base_offset if slice_.size else hosted.log_start_offset
            future.truncate_fully_and_start_at(base_offset, now_ms, hosted.log_start_offset)
        if future.log_end_offset > hosted.log_end_offset:
            future.truncate_to(hosted.log_end_offset, now_ms)
        if hosted.log.generation != move.generation:
            move.generation = hosted.log.generation
            future.truncate_to(_common_end(hosted.open_log(), future), now_ms)

    def _bytes_left(self, move: ReplicaMove) -> int:
        """Returns the number of bytes to copy."""
        return bytes_from(move.hosted.open_log(), move.next_offset)

    async def _copy_chunk(self, move: ReplicaMove) -> None:
        source, now_ms = move.hosted.open_log(), self._clock.now_ms()
        found = source.read(move.next_offset, CHUNK_BYTES)
        try:
            await self._disk.run(lambda: move.future.append(found.bytes(), None, now_ms))
        except BatchError:
            if source.generation == move.generation:
                raise  # otherwise the bytes were truncated while the thread read them

    def _change_places(self, move: ReplicaMove) -> None:
        hosted, future, now_ms = move.hosted, move.future, self._clock.now_ms()
        while (found := hosted.open_log().read(move.next_offset, CHUNK_BYTES)).size:
            future.append(found.bytes(), None, now_ms)
        future.advance_log_start_offset(hosted.log_start_offset)
        if hosted.is_leader:
            future.epochs.assign(hosted.leader_epoch, future.log_end_offset)
        old_log, old_directory = hosted.log, hosted.directory
        move.destination.rename(future, "")
        move.destination.claims.release(move.key)
        future.config = old_log.config
        hosted.log, hosted.directory = future, move.destination
        self._forget(move)
        hosted.refresh_append_state()
        self._cleaner.moved(hosted, old_directory.path)
        old_directory.discard(old_log, now_ms)
        self._reports.add(hosted)


def _begin_after_remote(source: Log, future: Log, now_ms: int) -> None:
    """Has the future log begin with the local part of the log, whose leader epochs and log start it gets."""
    start = source.local_log_start_offset
    slice_ = source.read(start, 1)
    base_offset = read_header(slice_.bytes()).base_offset if slice_.size else start
    try:
        producers = source.producers_at_local_start()
    except CorruptSnapshot as damage:
        log.warning("%s: producers before offset %d are not known any more: %s", source.path, start, damage)
        producers = []
    future.begin_after_remote(base_offset, now_ms, source.log_start_offset, source.epochs.entries(), producers)


def _common_end(source: Log, future: Log) -> int:
    """Returns the end of the records that both logs have. A follower may have truncated records that are in `future`, and
    fetched others of later epochs in their place.
    """
    begin, end = max(source.local_log_start_offset, future.local_log_start_offset), future.log_end_offset
    starts = {start for log in (source, future) for _, start in log.epochs.entries() if begin < start < end}
    for offset in sorted({begin, *starts} if begin < end else ()):
        if source.epochs.epoch_for_offset(offset) != future.epochs.epoch_for_offset(offset):
            return offset
    return end


def bytes_from(source: Log, offset: int) -> int:
    """Returns how many bytes a log has from an offset on."""
    if offset >= source.log_end_offset:
        return 0
    segment = source.segment_of(offset)
    later = sum(other.size for other in source.segments if other.base_offset > segment.base_offset)
    return later + segment.size - source.read(offset, 1).position
