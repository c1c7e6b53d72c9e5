"""Periodic maintenance of logs, at the configured intervals.

`LogMaintenance` never blocks the loop: logs are inspected some at a time, and a thread does the work that waits for
the disk. Its tasks:
- retention: old segments are deleted (`log.retention.check.interval.ms`), their files later (`file.delete.delay.ms`);
- flushing: rolled segments, and logs whose `flush.ms` has passed;
- checkpoints of recovery points, log starts and high watermarks;
- notes of idle replicas, which a start after the end of the process need not read;
- removal of expired producers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from ...storage.directory import checkpoints_of
from ...storage.files.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from ...storage.files.failures import LogDirectoryFailure
from ...storage.log.retention import delete_old_segments
from ..runtime.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.thread_pools import ThreadPool

log = logging.getLogger("odradek.maintenance")

#: Logs that are looked at before the loop does something else: a few microseconds each.
LOGS_AT_A_TIME = 50
#: Notes of replicas that are kept in memory until they are written.
NOTES_AT_A_TIME = 1000
#: Rolled segments are flushed this often at least; only a power cut can tell.
FLUSH_CHECK_INTERVAL_MS = 5_000
#: How often the files of what was deleted are looked for.
REMOVAL_INTERVAL_MS = 1_000


class LogMaintenance:
    """The periodic tasks of all logs here. Threads of `disk` wait for the disk."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        disk: ThreadPool,
        background: BackgroundTasks | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._disk = disk
        self._background = background or BackgroundTasks()
        self._tasks: list[asyncio.Task[None]] = []
        #: Partitions with removed segments whose files are still there.
        self._with_removed_segments: set[HostedPartition] = set()

    def start(self) -> None:
        config = self._config
        flush_ms = min(config.get("log.flush.scheduler.interval.ms"), FLUSH_CHECK_INTERVAL_MS)
        for interval_ms, work in (
            (config.get("log.retention.check.interval.ms"), self.delete_old_segments),
            (REMOVAL_INTERVAL_MS, self.remove_files),
            (flush_ms, self.flush_what_is_due),
            (config.get("log.flush.offset.checkpoint.interval.ms"), self.write_checkpoints),
            (config.get("log.flush.offset.checkpoint.interval.ms"), self.note_idle_replicas),
            (config.get("replica.high.watermark.checkpoint.interval.ms"), self.write_high_watermarks),
            (config.get("producer.id.expiration.check.interval.ms"), self.expire_producers),
        ):
            self._tasks.append(asyncio.create_task(self._each(interval_ms, work), name=work.__name__))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _each(self, interval_ms: int, work: Callable[[], Coroutine[object, None, None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await work()
            except LogDirectoryFailure as failure:
                self._partitions.directory_failed(failure)
            except Exception as failure:
                self._background.failed(_task_name(work), failure)
            else:
                self._background.succeeded(_task_name(work))

    async def _over_logs(self, look: Callable[[HostedPartition], object]) -> None:
        """Calls `look` with every partition whose log is there, some at a time."""
        for number, hosted in enumerate(self._partitions):
            if number % LOGS_AT_A_TIME == LOGS_AT_A_TIME - 1:
                await asyncio.sleep(0)
            if hosted.offline or hosted.is_removed:
                continue
            try:
                look(hosted)
            except LogDirectoryFailure as failure:
                hosted.on_failure(failure)

    # Retention and removal.

    async def delete_old_segments(self) -> None:
        await self._over_logs(self._delete_old_segments)
        await self._remove_segments()

    def _delete_old_segments(self, hosted: HostedPartition) -> None:
        before = hosted.log.log_start_offset
        if hosted.log.config.remote_storage:
            remote = self._partitions.remote
            count = 0 if remote is None else remote.delete_local_segments(hosted)
        else:
            count = delete_old_segments(hosted.open_log(), self._clock.now_ms(), hosted.role.high_watermark, defer=True)
        if count:
            log.info(
                "%s: %d old segments deleted; the log starts at offset %d",
                hosted.name,
                count,
                hosted.log.local_log_start_offset,
            )
            self.schedule_segment_deletion(hosted)
        if hosted.log.log_start_offset != before:
            hosted.log_start_moved()

    def schedule_segment_deletion(self, hosted: HostedPartition) -> None:
        """Schedules the deletion of the files of removed segments."""
        self._with_removed_segments.add(hosted)

    async def remove_files(self) -> None:
        await self._remove_segments()
        now_ms = self._clock.now_ms()
        for directory in self._partitions.directories:
            if directory.is_online and directory.claims.has_gone():
                await self._disk.run(directory.claims.lower)
            if directory.is_online and directory.has_scheduled_deletions:
                await self._disk.run(directory.delete_scheduled, now_ms)

    async def _remove_segments(self) -> None:
        """Renames the files of removed segments, and unlinks those whose time has come, on a thread."""
        now_ms = self._clock.now_ms()
        for hosted in list(self._with_removed_segments):
            if not hosted.offline and not hosted.is_removed:
                try:
                    await self._disk.run(hosted.open_log().delete_scheduled, now_ms)
                except LogDirectoryFailure as failure:
                    hosted.on_failure(failure)
            if hosted.offline or hosted.is_removed or not hosted.log.has_removed_segments:
                self._with_removed_segments.discard(hosted)

    # To the disk.

    async def flush_what_is_due(self) -> None:
        due: list[tuple[HostedPartition, int]] = []
        now_ms = self._clock.now_ms()

        def look(hosted: HostedPartition) -> None:
            up_to_offset = hosted.log.flush_due(now_ms)
            if up_to_offset is not None:
                due.append((hosted, up_to_offset))

        await self._over_logs(look)
        for hosted, up_to_offset in due:
            await self._flush(hosted, up_to_offset)

    async def _flush(self, hosted: HostedPartition, up_to_offset: int) -> None:
        flushed = asyncio.Event()
        hosted.want_flushed(up_to_offset, self._clock.now_ms(), lambda _: flushed.set())
        await flushed.wait()

    async def write_checkpoints(self) -> None:
        for directory in self._loaded():
            age = directory.claims.age
            found = checkpoints_of(hosted.log for hosted in self._partitions.in_directory(directory))
            recovery_points = directory.claims.bounded(found.recovery_points)
            log_start_offsets = directory.claims.bounded(found.log_start_offsets)
            await self._disk.run(directory.claims.write, RECOVERY_POINTS, recovery_points, age)
            await self._disk.run(directory.claims.write, LOG_START_OFFSETS, log_start_offsets, age)

    async def write_high_watermarks(self) -> None:
        for directory in self._loaded():
            age, found = directory.claims.age, self._partitions.high_watermarks(directory)
            await self._disk.run(directory.claims.write, HIGH_WATERMARKS, directory.claims.bounded(found), age)

    async def note_idle_replicas(self) -> None:
        """Notes the replicas that have not grown since the last time."""
        for directory in self._online():
            notes = []
            if not directory.keeps_notes:
                continue
            for number, hosted in enumerate(self._partitions.in_directory(directory)):
                if number % LOGS_AT_A_TIME == LOGS_AT_A_TIME - 1:
                    await asyncio.sleep(0)
                if hosted.offline or hosted.is_removed or not hosted.log.is_idle():
                    continue
                note = directory.note_idle(hosted.log, hosted.topic_id, self._clock.now_ms() * 1_000_000)
                if note is not None:
                    notes.append(note)
                if len(notes) == NOTES_AT_A_TIME:
                    await self._disk.run(directory.add_notes, notes)
                    notes = []
            if notes:
                await self._disk.run(directory.add_notes, notes)

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._partitions.directories if directory.is_online]

    def _loaded(self) -> list[LogDirectory]:
        """Returns the directories whose checkpoints can be written: not before all replicas are open."""
        return self._online() if self._partitions.are_loaded else []

    # Producers.

    async def expire_producers(self) -> None:
        now_ms, expiration_ms = self._clock.now_ms(), self._config.get("producer.id.expiration.ms")
        await self._over_logs(lambda hosted: hosted.log.expire_producers(now_ms, expiration_ms))


def _task_name(work: Callable[..., object]) -> str:
    return work.__name__.replace("_", " ")
