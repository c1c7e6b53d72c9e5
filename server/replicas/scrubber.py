"""Verification of logs in the background, so that damage is found, and healed, before a reader meets it.

A round goes through all segments of all partitions here, at `odradek.scrub.bytes.per.second`; `odradek.scrub.interval.ms`
is the time from one round to the next. A thread of its own reads and checks small pieces (storage/repair/verification.py),
and the event loop only takes note of the results. A segment that a reader met something wrong in is verified at once; a
closed one that is read for the first time is next.

Where a round stands is not saved: it begins with a random partition, so that each segment is as likely to be
verified as any other however often the broker is restarted.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...storage.files.failures import LogDirectoryFailure
from ...storage.segments.damage import OffsetDamaged, SegmentSuspected

if TYPE_CHECKING:
    from ...protocol.records.errors import BatchError
    from ...storage.log.log import Log
    from ...storage.repair.verification import Job, SegmentVerifier
    from ...storage.segments.segment import Segment
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.node import Node
    from .cleaner import LogCleaner

log = logging.getLogger("odradek.damage")

#: A start has other things to do first.
FIRST_ROUND_DELAY_S = 60.0
#: Partitions that are looked at before the loop does something else.
PARTITIONS_AT_A_TIME = 50
#: A segment that a reader waits for is verified faster than others, but does not take the whole disk.
INSPECTION_BYTES_PER_SECOND = 256 << 20
#: A follower may ask again because a connection was lost, too.
DOUBT_INTERVAL_S = 10.0
MOST_DOUBTED = 1000
#: Segments that wait for verification because clients read them; for further ones, the next read asks again.
MOST_SOON = 10_000
#: Lines about one segment; a disk with more holes has said enough.
MOST_LINES = 10


class Scrubber:
    """The verification of the logs here, on a pool of one thread. `heal` is called with partitions found damaged."""

    def __init__(
        self,
        node: Node,
        partitions: Partitions,
        cleaner: LogCleaner,
        heal: Callable[[HostedPartition], object],
    ) -> None:
        self._config = node.config
        self._clock = node.clock
        self._counters = node.damage
        self._thread = node.pools.scrub
        self._background = node.background
        self._partitions = partitions
        self._cleaner = cleaner
        self._heal = heal
        self._task: asyncio.Task[None] | None = None
        #: Inspections under way, by partition and segment, and what waits for them.
        self._inspections: dict[tuple[HostedPartition, int], list[Callable[[], object]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Segments that are being verified: a second verification would find what the first one is about to mend.
        self._verifying: dict[Segment, asyncio.Event] = {}
        #: Closed segments that were read, and are to be verified.
        self._soon: deque[tuple[HostedPartition, Segment]] = deque()
        self._soon_task: asyncio.Task[None] | None = None
        #: Partitions that followers made verified, and when they may do so again.
        self._doubted: dict[HostedPartition, float] = {}

    def start(self) -> None:
        if self._bytes_per_second > 0:
            self._task = asyncio.create_task(self._run(), name="scrubber")

    async def stop(self) -> None:
        tasks = [*self._tasks, *filter(None, (self._task, self._soon_task))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._thread.done()
        self._task = None

    @property
    def _bytes_per_second(self) -> int:
        return self._config.get("odradek.scrub.bytes.per.second")

    # Rounds.

    async def _run(self) -> None:
        interval_s = self._config.get("odradek.scrub.interval.ms") / 1000
        await asyncio.sleep(min(interval_s, FIRST_ROUND_DELAY_S))
        while True:
            try:
                await self.round()
            except Exception as failure:
                self._background.failed("scrubber", failure)
            else:
                self._background.succeeded("scrubber")
            await asyncio.sleep(interval_s)

    async def round(self) -> None:
        """Verifies every segment there is."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        partitions = list(self._partitions)
        first = random.randrange(len(partitions)) if partitions else 0
        for number, hosted in enumerate(partitions[first:] + partitions[:first]):
            if number % PARTITIONS_AT_A_TIME == PARTITIONS_AT_A_TIME - 1:
                await asyncio.sleep(0)
            for segment in list(hosted.open_log().segments):
                if segment.size or segment is not hosted.open_log().active:
                    await self._verify(hosted, segment, self._bytes_per_second)
        self._counters.scrub_rounds += 1
        self._counters.last_round_ms = self._clock.now_ms()
        self._counters.last_round_took_ms = int((loop.time() - began) * 1000)

    # Segments that are read.

    def verify_soon(self, hosted: HostedPartition, base_offset: int) -> None:
        """Verifies a segment next, at the rate of a round: a reader took records of it that were not verified yet."""
        if self._bytes_per_second <= 0 or len(self._soon) >= MOST_SOON:
            return
        segment = hosted.open_log().segment_of(base_offset)
        if segment.is_verified or segment is hosted.open_log().active:
            return
        segment.is_verified = True
        self._soon.append((hosted, segment))
        if self._soon_task is None:
            self._soon_task = asyncio.get_running_loop().create_task(self._verify_read(), name="verify read segments")

    async def _verify_read(self) -> None:
        try:
            while self._soon:
                await self._verify(*self._soon.popleft(), self._bytes_per_second)
            self._background.succeeded("verification of read segments")
        except Exception as failure:  # the next round verifies the segment
            self._background.failed("verification of read segments", failure)
        finally:
            self._soon_task = None

    # One segment.

    def inspect(self, hosted: HostedPartition, base_offset: int, done: Callable[[], object] = lambda: None) -> None:
        """Verifies a segment immediately. `done` is called on the loop when its damage is known."""
        key = (hosted, base_offset)
        waiting = self._inspections.get(key)
        if waiting is not None:
            waiting.append(done)
            return
        self._inspections[key] = [done]
        task = asyncio.get_running_loop().create_task(self._inspect(hosted, base_offset), name=f"inspect {hosted.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _inspect(self, hosted: HostedPartition, base_offset: int) -> None:
        try:
            segment = hosted.open_log().segment_of(base_offset)
            if segment.base_offset == base_offset:
                await self._verify(hosted, segment, INSPECTION_BYTES_PER_SECOND)
        except Exception as failure:  # the next reader that meets the damage begins another
            self._background.failed("inspection of damage", failure)
        else:
            self._background.succeeded("inspection of damage")
        finally:
            for done in self._inspections.pop((hosted, base_offset)):
                done()

    def met(self, hosted: HostedPartition, damage: BatchError) -> None:
        """Handles a read that met `damage` instead of records."""
        self._counters.reads_rejected += 1
        if isinstance(damage, SegmentSuspected):
            self.inspect(hosted, damage.base_offset)
        else:
            first = damage.damaged.first_offset if isinstance(damage, OffsetDamaged) else None
            self._counters.say(
                (hosted.name, first), "a read of %s failed with CORRUPT_MESSAGE: %s", hosted.name, damage
            )

    def doubt(self, hosted: HostedPartition, offset: int) -> None:
        """Verifies the segment of records that a follower requests again, once per DOUBT_INTERVAL_S."""
        now = asyncio.get_running_loop().time()
        if now >= self._doubted.get(hosted, 0.0):
            if len(self._doubted) >= MOST_DOUBTED:
                self._doubted.clear()
            self._doubted[hosted] = now + DOUBT_INTERVAL_S
            self.inspect(hosted, hosted.open_log().segment_of(offset).base_offset)

    async def _verify(self, hosted: HostedPartition, segment: Segment, bytes_per_second: int) -> None:
        """Verifies a segment, after a verification of it that is under way."""
        while (under_way := self._verifying.get(segment)) is not None:
            await under_way.wait()
        self._verifying[segment] = ended = asyncio.Event()
        try:
            await self._verify_in_pieces(hosted, segment, bytes_per_second)
        finally:
            del self._verifying[segment]
            ended.set()

    async def _verify_in_pieces(self, hosted: HostedPartition, segment: Segment, bytes_per_second: int) -> None:
        """The rate is read for each piece, so a change takes effect at once."""
        read, loop = hosted.open_log(), asyncio.get_running_loop()
        if not _is_there(hosted, read, segment):
            return
        from ...storage.repair.verification import SegmentVerifier  # with the first round, well after the start

        verifier, path, generation = SegmentVerifier(self._job(hosted, segment)), read.path, read.generation
        try:
            while not verifier.is_done:
                began = loop.time()
                count = await self._thread.run(verifier.step)
                self._counters.scrubbed_bytes += count
                is_same = _is_there(hosted, read, segment) and (read.path, read.generation) == (path, generation)
                if not is_same:
                    return
                await asyncio.sleep(max(0.0, count / max(1, bytes_per_second) - (loop.time() - began)))
            if _is_there(hosted, read, segment) and (read.path, read.generation) == (path, generation):
                await self._take_note(hosted, segment, verifier)
        except OSError as error:
            self._failed(hosted, LogDirectoryFailure(read.log_directory, f"verifying {verifier.path}", error))
        except LogDirectoryFailure as failure:
            self._failed(hosted, failure)
        finally:
            # A task may be cancelled while the thread still reads: the file is closed behind that piece, by the same thread.
            self._thread.run_then(verifier.close, lambda _: None)

    def _job(self, hosted: HostedPartition, segment: Segment) -> Job:
        from ...storage.repair.aborted_check import MOST_EARLIER_SEGMENTS
        from ...storage.repair.verification import Job

        checked = hosted.open_log()
        is_compacted = checked.config.compact or self._cleaner.has_cleaned(hosted)
        base, end, is_closed = segment.base_offset, segment.next_offset, segment is not checked.active
        before = checked.segments_before(base, MOST_EARLIER_SEGMENTS)
        earlier = tuple((one.base_offset, one.size) for one in before)
        return Job(checked.directory, base, end, segment.size, is_compacted, is_closed, earlier)

    async def _take_note(self, hosted: HostedPartition, segment: Segment, verifier: SegmentVerifier) -> None:
        checked, counters = hosted.open_log(), self._counters
        segment.is_verified = True
        counters.scrubbed_segments += 1
        job = verifier.job
        self._cleaner.note_poisoned(hosted, verifier.poisoned, job.base_offset, job.next_offset)
        size = verifier.file_size or 0
        if size < verifier.job.size:
            segment.shrink(size)
            if segment is checked.active:
                checked.roll(self._clock.now_ms())
        new = checked.add_damage(verifier.found)
        if new:
            counters.ranges_found += len(new)
            for one in new[:MOST_LINES]:
                log.error(
                    "%s: offsets %d to %d are damaged (%s/%s at %d, %d bytes: %s)",
                    hosted.name, one.first_offset, one.next_offset - 1, checked.path, one.file, one.position, one.size,
                    one.reason,
                )  # fmt: skip
            if len(new) > MOST_LINES:
                log.error("%s: %d more ranges of %s are damaged", hosted.name, len(new) - MOST_LINES, verifier.path)
        if verifier.found:
            self._heal(hosted)
        aborted, is_wrong = verifier.aborted, verifier.is_aborted_wrong
        if aborted is not None and checked.correct_aborted(segment, aborted, job.next_offset, is_wrong=is_wrong):
            counters.indexes_rebuilt += 1
            log.warning(
                "%s: its index of aborted transactions (.txnindex) did not match the segment and is rebuilt",
                segment.path,
            )
        if new:
            await self._thread.run(checked.damage.save)
        if verifier.is_index_wrong and size:
            await self._rebuild_indexes(hosted, segment)

    async def _rebuild_indexes(self, hosted: HostedPartition, segment: Segment) -> None:
        from ...storage.repair.verification import build_indexes

        rebuilt, path = hosted.open_log(), segment.path
        if segment is rebuilt.active:
            return
        indexes = await self._thread.run(lambda: build_indexes(segment, rebuilt.config.index_interval_bytes))
        if _is_there(hosted, rebuilt, segment) and segment.path == path:
            segment.replace_indexes(*indexes)
            self._counters.indexes_rebuilt += 1
            log.warning("%s: its indexes did not match the segment and are rebuilt", path)

    def _failed(self, hosted: HostedPartition, failure: LogDirectoryFailure) -> None:
        """Handles a failed read. A log directory that is gone as a whole is left to its writers."""
        if not hosted.is_removed and not Path(hosted.log.path).is_dir():
            log.error("%s: its directory %s is missing", hosted.name, hosted.log.path)
        elif not hosted.is_removed:
            hosted.on_failure(failure)


def _is_there(hosted: HostedPartition, read: Log, segment: Segment) -> bool:
    """Returns whether the segment still belongs to the log of the partition."""
    return not hosted.offline and not hosted.is_removed and hosted.log is read and segment in read.segments
