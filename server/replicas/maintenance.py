"""Periodic maintenance of logs, at the configured intervals, and compaction.

`LogMaintenance` never blocks the loop: logs are inspected some at a time, and a thread does the work that waits for
the disk. Its tasks:
- retention: old segments are deleted (`log.retention.check.interval.ms`), their files later (`file.delete.delay.ms`);
- flushing: rolled segments, and logs whose `flush.ms` has passed;
- checkpoints of recovery points, log starts and high watermarks;
- notes of idle replicas, which a start after the end of the process need not read;
- removal of expired producers;
- compaction (`LogCleaner`).

`run_job` runs a compaction job: a small one on a thread, a large one in a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ...protocol.records.errors import BatchError
from ...storage.directory import LogDirectory, checkpoints_of
from ...storage.files.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    find_offsets,
    write_offsets,
)
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.log import delete_old_segments
from ...storage.segments.damage import PoisonedBatch, SegmentSuspected
from ..runtime.counters import BackgroundTasks
from ..runtime.memory import LARGE_BYTES, release_after

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ...storage.compaction import CleaningJob, CleaningResult, DirtyRange
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.counters import DamageCounters
    from ..runtime.thread_pools import ThreadPool


# ---- periodic tasks

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
        #: The contents of the checkpoints, by path: they are written only when they differ.
        self._written: dict[str, dict[TopicPartition, int]] = {}
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

    # ---- retention and removal

    async def delete_old_segments(self) -> None:
        await self._over_logs(self._delete_old_segments)
        await self._remove_segments()

    def _delete_old_segments(self, hosted: HostedPartition) -> None:
        before = hosted.log.log_start_offset
        if hosted.log.config.remote_storage:
            remote = self._partitions.remote
            count = 0 if remote is None else remote.delete_local_segments(hosted)
        else:
            count = delete_old_segments(hosted.log, self._clock.now_ms(), hosted.role.high_watermark, defer=True)
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
            if directory.is_online and directory.has_scheduled_deletions:
                await self._disk.run(directory.delete_scheduled, now_ms)

    async def _remove_segments(self) -> None:
        """Renames the files of removed segments, and unlinks those whose time has come, on a thread."""
        now_ms = self._clock.now_ms()
        for hosted in list(self._with_removed_segments):
            if not hosted.offline and not hosted.is_removed:
                try:
                    await self._disk.run(hosted.log.delete_scheduled, now_ms)
                except LogDirectoryFailure as failure:
                    hosted.on_failure(failure)
            if hosted.offline or hosted.is_removed or not hosted.log.has_removed_segments:
                self._with_removed_segments.discard(hosted)

    # ---- to the disk

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
            found = checkpoints_of(hosted.log for hosted in self._partitions.in_directory(directory))
            await self._write(directory, RECOVERY_POINTS, found.recovery_points)
            await self._write(directory, LOG_START_OFFSETS, found.log_start_offsets)

    async def write_high_watermarks(self) -> None:
        for directory in self._loaded():
            await self._write(directory, HIGH_WATERMARKS, self._partitions.high_watermarks(directory))

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

    async def _write(self, directory: LogDirectory, name: str, offsets: dict[TopicPartition, int]) -> None:
        path = f"{directory.path}/{name}"
        if self._written.get(path) != offsets:
            await self._disk.run(write_offsets, directory.path, name, offsets)
            self._written[path] = offsets

    # ---- producers

    async def expire_producers(self) -> None:
        now_ms, expiration_ms = self._clock.now_ms(), self._config.get("producer.id.expiration.ms")
        await self._over_logs(lambda hosted: hosted.log.expire_producers(now_ms, expiration_ms))


def _task_name(work: Callable[..., object]) -> str:
    return work.__name__.replace("_", " ")


# ---- compaction jobs
#
# The work of a job is all CPU, and would hold up every request in this process. The process exists only while it
# works. It is a fresh interpreter that imports the storage and nothing of the embedding program: `multiprocessing`
# would run that program's main module again, and fork a process with threads or keep a second one.

#: Below this, the start of a process (some 0.1 s of CPU) costs more than it saves.
SMALL_JOB_BYTES = 2 << 20
#: A batch of some kilobytes may have a million records, and a thread that opens them takes the interpreter's lock.
SMALL_JOB_RECORDS = 50_000

#: The interpreter's switch interval while a thread of this process cleans: each time that the loop has waited for an event,
#: it waits up to an interval for the interpreter's lock. The default is 5 ms.
SWITCH_INTERVAL_S = 0.0005


class ShortSwitches:
    """Shortens the switch interval of this process for some work. May be used by several brokers of a process at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before_s = 0.0

    @contextmanager
    def used(self) -> Iterator[None]:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, SWITCH_INTERVAL_S))
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    sys.setswitchinterval(self._before_s)


SHORT_SWITCHES = ShortSwitches()

_PROCESS = f"from {__package__.removesuffix('.server.replicas')}.storage.compaction import main; main()"


async def run_job(job: CleaningJob, total_bytes: int, disk: ThreadPool) -> CleaningResult:
    """Raises what `CleaningJob.run` does. Cancelling it ends the process that works on it."""
    offsets = job.end_offset - min((one.base_offset for one in job.segments), default=job.end_offset)
    if total_bytes > SMALL_JOB_BYTES or offsets > SMALL_JOB_RECORDS:
        return await run_in_process(job, disk)
    try:
        with SHORT_SWITCHES.used():
            return await disk.run(job.run)
    finally:
        # A few kilobytes of its batches may have held megabytes.
        release_after(LARGE_BYTES)


async def run_in_process(job: CleaningJob, disk: ThreadPool) -> CleaningResult:
    starting = disk.start(_start_process, pickle.dumps(job))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(partial(_end_started, disk))
        raise
    try:
        response = await _read_to_end(process)
        await disk.run(process.wait)
    except BaseException:
        process.kill()
        await disk.run(process.wait)
        raise
    finally:
        _standard_input(process).close()
    if process.returncode:
        raise RuntimeError(f"the compaction process ended with exit status {process.returncode}")
    outcome: CleaningResult | Exception = pickle.loads(response)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _start_process(pickled_job: bytes) -> subprocess.Popen[bytes]:
    """Starts the process on this thread. The event loops' own ways fork, which holds the loop for 3 ms or more: the system
    copies the page tables of this process, and each page that is written later. `Popen` needs no copy, and takes 0.5 ms.
    """
    # "" is the working directory of this process. `-P` keeps it from the front, where its files could hide modules.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROCESS],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    # Standard input stays open: the process ends when this one, and with it the pipe, is gone.
    with suppress(BrokenPipeError):  # it has ended: its exit status is read later
        _write_all(_standard_input(process), pickled_job)
    return process


def _write_all(file: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _standard_input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


async def _read_to_end(process: subprocess.Popen[bytes]) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    try:
        return await reader.read()
    finally:
        transport.close()


def _end_started(disk: ThreadPool, starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        process = starting.result()
        process.kill()
        _standard_input(process).close()
        assert process.stdout is not None
        process.stdout.close()
        disk.start(process.wait)  # a process that the disk holds up ends later


# ---- compaction in the background
#
# Compaction in the background (`log.cleaner.enable`): always the dirtiest log that needs it, until none does.


cleaner_log = logging.getLogger("odradek.cleaner")


class LogCleaner:
    """Cleans one log at a time. `is_rewritten` returns whether another part rewrites a partition's log now."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        maintenance: LogMaintenance,
        damage: DamageCounters,
        disk: ThreadPool,
        is_rewritten: Callable[[HostedPartition], bool],
        background: BackgroundTasks | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._maintenance = maintenance
        self._damage = damage
        self._disk = disk
        self._is_rewritten = is_rewritten
        self._background = background or BackgroundTasks()
        self._task: asyncio.Task[None] | None = None
        #: The offset up to which each log is clean, from each directory's checkpoint.
        self._clean_up_to: dict[str, dict[TopicPartition, int]] = {}
        #: Directories whose checkpoint has changed by a move, and is to be written.
        self._unwritten: set[str] = set()
        #: Logs with damaged batches: not to be cleaned before an operator has repaired them.
        self._uncleanable: set[TopicPartition] = set()
        self._cleaned_now: HostedPartition | None = None
        #: By the base offset, the poisoned batches of each log as its last cleaning or verification met them.
        self.poisoned: dict[TopicPartition, dict[int, PoisonedBatch]] = {}

    def start(self) -> None:
        if self._config.get("log.cleaner.enable"):
            self._task = asyncio.create_task(self._run(), name="log cleaner")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._write_moved()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._config.get("log.cleaner.backoff.ms") / 1000)
            try:
                while await self.clean_one():
                    pass
            except Exception as failure:
                self._background.failed("log cleaner", failure)
            else:
                self._background.succeeded("log cleaner")

    async def clean_one(self) -> bool:
        """Cleans the log that needs it most; False when none does."""
        await self._write_moved()
        dirtiest = await self._dirtiest()
        if dirtiest is None:
            return False
        hosted, dirt = dirtiest
        self._cleaned_now = hosted
        try:
            return await self._clean(hosted, dirt)
        except LogDirectoryFailure as failure:
            if not hosted.is_removed:
                hosted.on_failure(failure)
        except SegmentSuspected as damage:
            words = "%s is not compacted until its damage has been inspected: %s"
            self._damage.say((hosted.name, "cleaner"), words, hosted.name, damage)
            hosted.on_damage(hosted, damage)
            return False
        except BatchError as damaged:
            cleaner_log.error("%s is not compacted any more: %s", hosted.name, damaged)
            self._uncleanable.add((hosted.topic, hosted.index))
        finally:
            self._cleaned_now = None
        return True

    def has_cleaned(self, hosted: HostedPartition) -> bool:
        """Returns True if the checkpoint has the log: it was compacted before, so offsets may be missing in it."""
        return (hosted.topic, hosted.index) in self._checkpoint(hosted.directory.path)

    def moved(self, hosted: HostedPartition, source: str) -> None:
        """Takes the log's clean offset along from its former directory: its offsets are not mistaken for lost ones there."""
        key = (hosted.topic, hosted.index)
        offset = self._checkpoint(source).pop(key, None)
        if offset is not None:
            self._checkpoint(hosted.directory.path)[key] = offset
            self._unwritten |= {source, hosted.directory.path}

    async def _write_moved(self) -> None:
        while self._unwritten:
            try:
                await self._write_checkpoint(self._unwritten.pop())
            except LogDirectoryFailure as failure:
                self._partitions.directory_failed(failure)

    async def _write_checkpoint(self, path: str) -> None:
        await self._disk.run(write_offsets, path, CLEANER_OFFSETS, dict(self._checkpoint(path)))

    def works_on(self, hosted: HostedPartition) -> bool:
        """Returns True if the log is being compacted now."""
        return self._cleaned_now is hosted

    async def _dirtiest(self) -> tuple[HostedPartition, DirtyRange] | None:
        best: tuple[HostedPartition, DirtyRange] | None = None
        for hosted in self._partitions:
            if not hosted.log.config.compact or not self._may_clean(hosted):
                continue
            await asyncio.sleep(0)
            if hosted.is_removed or hosted.offline:
                continue
            from ...storage.compaction import look  # many brokers compact nothing

            try:
                checkpoint = self._checkpoint(hosted.directory.path).get((hosted.topic, hosted.index))
                dirt = look(hosted.log, checkpoint, hosted.last_stable_offset, self._clock.now_ms())
            except LogDirectoryFailure as failure:
                hosted.on_failure(failure)
                continue
            if dirt.needs_cleaning(hosted.log.config) and (best is None or dirt.ratio > best[1].ratio):
                best = hosted, dirt
        return best

    def _may_clean(self, hosted: HostedPartition) -> bool:
        if hosted.offline or hosted.is_removed or self._is_rewritten(hosted):
            return False
        return (hosted.topic, hosted.index) not in self._uncleanable

    async def _clean(self, hosted: HostedPartition, dirt: DirtyRange) -> bool:
        from ...storage.compaction import BYTES_PER_KEY, job

        most_keys = self._config.get("log.cleaner.dedupe.buffer.size") // BYTES_PER_KEY
        cleaning = job(hosted.log, dirt, self._clock.now_ms(), most_keys)
        began = time.monotonic()
        result = await run_job(cleaning, dirt.total_bytes, self._disk)
        took_s = time.monotonic() - began
        if not await self._swap_in(hosted, cleaning, result):
            return True
        self.note_poisoned(hosted, result.poisoned, 0, result.end_offset)
        self._maintenance.schedule_segment_deletion(hosted)
        cleaner_log.info("%s compacted: %d bytes became %d", hosted.name, result.bytes_read, result.bytes_written)
        path = hosted.directory.path
        self._checkpoint(path)[hosted.topic, hosted.index] = result.end_offset
        await self._write_checkpoint(path)
        # A pause makes up for reads and writes above the limit.
        bytes_per_s = max(1.0, self._config.get("log.cleaner.io.max.bytes.per.second"))
        await asyncio.sleep(max(0.0, (result.bytes_read + result.bytes_written) / bytes_per_s - took_s))
        # A full map cleans a part only; without progress it would begin anew for ever.
        return result.end_offset > dirt.first_dirty_offset

    async def _swap_in(self, hosted: HostedPartition, cleaning: CleaningJob, result: CleaningResult) -> bool:
        """Swaps the cleaned segments in, one in a turn of the loop. Returns whether all are the log's now."""
        from ...storage.compaction import finish_in_steps

        if hosted.is_removed or hosted.offline:
            return False
        is_whole = True
        with closing(finish_in_steps(hosted.log, cleaning, result, self._clock.now_ms())) as swaps:
            for is_swapped in swaps:
                is_whole = is_whole and is_swapped
                await asyncio.sleep(0)
                if hosted.is_removed or hosted.offline:
                    return False
        return is_whole

    def note_poisoned(
        self, hosted: HostedPartition, found: Iterable[PoisonedBatch], first_offset: int, end_offset: int
    ) -> None:
        """Notes what a cleaning or a verification of these offsets met, and reports each poisoned batch once."""
        known = self.poisoned.pop((hosted.topic, hosted.index), {})
        noted = {offset: one for offset, one in known.items() if not first_offset <= offset < end_offset}
        for one in found:
            noted[one.base_offset] = one
            if one.base_offset not in known:
                words = "%s: offsets %d to %d are poisoned, no consumer can read them (%s): see `odradek log check`"
                cleaner_log.error(words, hosted.name, one.base_offset, one.last_offset, one.reason)
        if noted:
            self.poisoned[hosted.topic, hosted.index] = noted

    def _checkpoint(self, path: str) -> dict[TopicPartition, int]:
        if path not in self._clean_up_to:
            found = find_offsets(path, CLEANER_OFFSETS)
            if found.note is not None:
                cleaner_log.warning(found.note)
            self._clean_up_to[path] = found.offsets
        return self._clean_up_to[path]
