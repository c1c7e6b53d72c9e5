"""Compaction in the background (`log.cleaner.enable`): always the dirtiest log that needs it, until none does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.records.errors import BatchError
from ...storage.files.checkpoints import CLEANER_OFFSETS, find_offsets, write_offsets
from ...storage.files.failures import LogDirectoryFailure
from ...storage.segments.damage import SegmentSuspected

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ...storage.compaction.cleaning_job import CleaningJob, CleaningResult
    from ...storage.compaction.dirty_range import DirtyRange
    from ...storage.segments.poison import PoisonedBatch
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.node import Node
    from .maintenance import LogMaintenance

cleaner_log = logging.getLogger("odradek.cleaner")


class LogCleaner:
    """Cleans one log at a time. `is_rewritten` returns whether another part rewrites a partition's log now."""

    def __init__(
        self,
        node: Node,
        partitions: Partitions,
        maintenance: LogMaintenance,
        is_rewritten: Callable[[HostedPartition], bool],
    ) -> None:
        self._config = node.config
        self._clock = node.clock
        self._damage = node.damage
        self._disk = node.pools.disk
        self._background = node.background
        self._partitions = partitions
        self._maintenance = maintenance
        self._is_rewritten = is_rewritten
        self._task: asyncio.Task[None] | None = None
        #: The offset up to which each log is clean, from each directory's checkpoint.
        self._clean_up_to: dict[str, dict[TopicPartition, int]] = {}
        #: Directories whose checkpoint has changed by something else than a cleaning, and is to be written.
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

    def limit_clean_offset(self, hosted: HostedPartition, offset: int) -> bool:
        """Lowers the clean offset of a log that is about to be cut. Returns whether it was higher."""
        offsets, key = self._checkpoint(hosted.directory.path), (hosted.topic, hosted.index)
        if offsets.get(key, 0) <= offset:
            return False
        offsets[key] = offset
        self._unwritten.add(hosted.directory.path)
        return True

    def clean_offsets_writer(self, path: str) -> Callable[[], None]:
        """Returns what writes the clean offsets of a log directory as they are now, on a thread."""
        return partial(write_offsets, path, CLEANER_OFFSETS, dict(self._checkpoint(path)))

    def removed(self, hosted: HostedPartition) -> None:
        """Forgets a replica: the next one of its name has not been compacted."""
        key, path = (hosted.topic, hosted.index), hosted.directory.path
        self.poisoned.pop(key, None)
        self._uncleanable.discard(key)
        if hosted.directory.is_online and self._checkpoint(path).pop(key, None) is not None:
            self._unwritten.add(path)

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
            from ...storage.compaction.dirty_range import look  # many brokers compact nothing

            try:
                checkpoint = self._checkpoint(hosted.directory.path).get((hosted.topic, hosted.index))
                dirt = look(hosted.open_log(), checkpoint, hosted.last_stable_offset, self._clock.now_ms())
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
        from ...storage.compaction.cleaning_job import job
        from ...storage.compaction.offset_map import BYTES_PER_KEY

        most_keys = self._config.get("log.cleaner.dedupe.buffer.size") // BYTES_PER_KEY
        cleaning = job(hosted.open_log(), dirt, self._clock.now_ms(), most_keys)
        began = time.monotonic()
        from .compaction_process import run_job  # an idle broker compacts nothing

        result = await run_job(cleaning, dirt.total_bytes, self._disk)
        took_s = time.monotonic() - began
        if not await self._swap_in(hosted, cleaning, result) or hosted.log.generation != cleaning.generation:
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
        from ...storage.compaction.cleaning_job import finish_in_steps

        if hosted.is_removed or hosted.offline:
            return False
        is_whole = True
        with closing(finish_in_steps(hosted.open_log(), cleaning, result, self._clock.now_ms())) as swaps:
            for is_swapped in swaps:
                is_whole = is_whole and is_swapped
                await asyncio.sleep(0)
                if hosted.is_removed or hosted.offline:
                    return False
        return is_whole

    def note_poisoned(
        self, hosted: HostedPartition, batches: Iterable[PoisonedBatch], first_offset: int, end_offset: int
    ) -> None:
        """Notes what a cleaning or a verification of these offsets met, and reports each poisoned batch once."""
        known = self.poisoned.pop((hosted.topic, hosted.index), {})
        noted = {offset: one for offset, one in known.items() if not first_offset <= offset < end_offset}
        for one in batches:
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
