"""Fetching damaged records again from other replicas.

Replicas are equal byte for byte, and each serves a consumer's Fetch (KIP-392), up to the high watermark. A follower
fetches from its leader, a leader from the other members of the ISR. So it works with every broker that serves such
a Fetch.

```
 damaged  -- wants -->  waiting  -- a replica has it -->  rebuilt beside, synced, swapped in  -->  whole
                           |  ^
                 no replica |  | after RETRY_S, or more damage
                           v  |
                          shown (CORRUPT_MESSAGE)
```

A new segment is written beside the damaged one: the sound bytes from the old file, the others from the replica. It
replaces the old one as a compacted segment does, which survives a crash at any point. Readers that have the old
file open keep it. While a partition waits for that, reads of its damaged ranges wait too (`hosted.is_healing`).

In a compacted log, one replica may have a batch that was cleaned on another, and lack the tombstone that deletes
its key. So all closed segments of such a log are taken from one replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.records.errors import BatchError
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.segment_files import LOG_SUFFIX
from ...storage.files.writes import sync_directory
from ...storage.segments.damage import DamagedRange
from .replica_reader import NotThere, ReplicaReader

if TYPE_CHECKING:
    from ...storage.log.log import Log
    from ...storage.segments.segment import Segment
    from ..config.endpoint import Endpoint
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .cleaner import LogCleaner
    from .maintenance import LogMaintenance
    from .replica_requests import ReplicaRequests

log = logging.getLogger("odradek.damage")

#: Until the next attempt for a partition that no replica could heal, or that is being compacted.
RETRY_S = 5.0
#: A truncated file is completed if it grows to no more than this share of segment.bytes.
MOST_GROWTH = 1.25
#: Attempts after which readers get CORRUPT_MESSAGE instead of waiting.
PATIENT_TRIES = 2


class Rebuild:
    """A segment being rebuilt: the offsets from `base_offset` up to `end`, of which `ranges` come from a replica.
    `segment` is the segment to replace; None if its file no longer exists.
    """

    def __init__(
        self, log: Log, segment: Segment | None, base_offset: int, next_offset: int, ranges: list[DamagedRange]
    ) -> None:
        from ...storage.repair.rebuilding import RebuiltSegment  # which few brokers ever need

        self.log = log
        self.segment = segment
        self.ranges = ranges
        #: Less than `_next_offset` where not all of a last range went into one segment.
        self.end = next_offset
        self._base_offset = base_offset
        self._next_offset = next_offset
        self._was = (log.path, log.generation)
        self.files = RebuiltSegment(log.directory, base_offset, segment)

    def swap_in(self, log: Log, now_ms: int) -> bool:
        """Puts the segment into the log. Returns False when the log is not the one that was read."""
        if log is not self.log or (log.path, log.generation) != self._was:
            return False
        base_offset, end = self._base_offset, self.end
        if self.segment is None:
            is_swapped = log.insert(base_offset, end, now_ms)
        else:
            is_swapped = log.replace(base_offset, [self.segment], now_ms)
        if is_swapped:
            log.healed(base_offset, self._next_offset)
            if end < self._next_offset:
                file = log.directory.file(end, LOG_SUFFIX).rpartition("/")[2]
                rest = DamagedRange(file, 0, 0, end, self._next_offset, self.ranges[-1].reason)
                log.add_damage([rest])
        return is_swapped


class Healer:
    """Heals damaged partitions, one at a time, so that a disk with much damage does not fill the network."""

    def __init__(
        self,
        node: Node,
        requests: Lazy[ReplicaRequests],
        cleaner: LogCleaner,
        maintenance: LogMaintenance,
        is_moving: Callable[[HostedPartition], bool],
    ) -> None:
        self._clock = node.clock
        self._counters = node.damage
        self._disk = node.pools.disk
        self._background = node.background
        self._requests = requests
        self._cleaner = cleaner
        self._maintenance = maintenance
        #: Returns True while the partition is moved to another log directory.
        self._is_moving = is_moving
        #: Partitions with damage, and how often healing them failed.
        self._wanted: dict[HostedPartition, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._healed_now: HostedPartition | None = None
        self._is_stopping = False

    def wants(self, hosted: HostedPartition) -> None:
        """Queues a partition, which has damage."""
        if self._is_stopping or len(hosted.role.replicas) < 2:
            return
        self._wanted[hosted] = 0
        hosted.is_healing = True
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="healing")

    def works_on(self, hosted: HostedPartition) -> bool:
        """Returns True if a segment of the log is being rebuilt now."""
        return self._healed_now is hosted

    async def stop(self) -> None:
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while self._wanted:
            self._woken.clear()
            for hosted in list(self._wanted):
                await self._try(hosted)
            if self._wanted:
                try:
                    async with asyncio.timeout(RETRY_S):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        self._task = None

    async def _try(self, hosted: HostedPartition) -> None:
        if not hosted.log.damage or hosted.is_removed or hosted.offline:
            self._over(hosted)
            return
        if self._cleaner.works_on(hosted) or self._is_moving(hosted):
            return
        self._healed_now = hosted
        healed, path = hosted.open_log(), hosted.log.path
        try:
            await self._heal(hosted)
        except NotThere as reason:
            self._not_healed(hosted, str(reason))
        except BatchError as reason:
            self._not_healed(hosted, str(reason))
        except (OSError, LogDirectoryFailure) as failure:
            if hosted.is_removed or hosted.log is not healed or healed.path != path:
                self._not_healed(hosted, "the log has changed meanwhile")
            elif isinstance(failure, LogDirectoryFailure):
                hosted.on_failure(failure)
            else:
                hosted.on_failure(LogDirectoryFailure(healed.log_directory, f"healing {path}", failure))
        except Exception as failure:
            self._background.failed("healing", failure)
            self._not_healed(hosted, "a bug")
        else:
            self._background.succeeded("healing")
        finally:
            self._healed_now = None
        if not hosted.log.damage:
            self._over(hosted)

    def _over(self, hosted: HostedPartition) -> None:
        self._wanted.pop(hosted, None)
        hosted.is_healing = False
        hosted.wake_readers()

    def _not_healed(self, hosted: HostedPartition, reason: str) -> None:
        tries = self._wanted[hosted] = self._wanted.get(hosted, 0) + 1
        self._counters.healings_failed += 1
        if tries >= PATIENT_TRIES and hosted.is_healing:
            hosted.is_healing = False
            hosted.wake_readers()
        words = "%s: damaged records cannot be fetched from another replica yet; the repair is retried: %s"
        self._counters.say((hosted.name, "healing"), words, hosted.name, reason, level=logging.WARNING)

    # One partition.

    async def _heal(self, hosted: HostedPartition) -> None:
        """Raises NotThere, BatchError, OSError, LogDirectoryFailure."""
        damaged = hosted.open_log()
        if any(one.next_offset > damaged.active.base_offset for one in damaged.damage):
            damaged.roll(self._clock.now_ms())
        is_whole = damaged.config.compact or self._cleaner.has_cleaned(hosted)
        reason = "no other replica is in sync"
        for endpoint in self._sources(hosted):
            reader = ReplicaReader(self._requests(), hosted, endpoint)
            try:
                if is_whole:
                    await self._take_all(hosted, reader)
                else:
                    await self._take_damaged(hosted, reader)
            except (NotThere, BatchError) as error:
                reason = str(error)
                continue
            return
        raise NotThere(reason)

    def _sources(self, hosted: HostedPartition) -> list[Endpoint]:
        """Returns the endpoints of the leader and of the other members of the ISR."""
        role, requests = hosted.role, self._requests()
        own = requests.node_id
        ids = dict.fromkeys(one for one in (role.leader, *role.isr) if one >= 0 and one != own)
        found = [requests.endpoint(one) for one in ids]
        return [endpoint for endpoint in found if endpoint is not None]

    async def _take_damaged(self, hosted: HostedPartition, reader: ReplicaReader) -> None:
        """Rebuilds each damaged segment from its sound bytes and, for the others, the replica's."""
        damaged = hosted.open_log()
        while damaged.damage:
            first = next(iter(damaged.damage))
            segment = _segment_of(damaged, first)
            if segment is None or _is_another_segment(damaged, segment, first):
                rebuild = Rebuild(damaged, None, first.first_offset, first.next_offset, [first])
            else:
                ranges = damaged.damage.in_file(first.file)
                rebuild = Rebuild(damaged, segment, segment.base_offset, segment.next_offset, ranges)
            await self._swap_in(hosted, [await self._build(rebuild, reader)], reader)

    async def _take_all(self, hosted: HostedPartition, reader: ReplicaReader) -> None:
        """Rebuilds every closed segment from the replica's, and gaps between them too."""
        taken = hosted.open_log()
        reader.may_have_gaps = True
        wanted = [
            Rebuild(taken, None, one.first_offset, one.next_offset, [one])
            for one in taken.damage
            if _segment_of(taken, one) is None
        ]
        for segment in taken.segments[:-1]:
            base, end = segment.base_offset, segment.next_offset
            whole = DamagedRange("", 0, segment.size, base, end, "")
            wanted.append(Rebuild(taken, segment, base, end, [whole]))
        built: list[Rebuild] = []
        try:
            for one in wanted:
                built.append(await self._build(one, reader))
        except BaseException:
            for one in built:
                one.files.discard()
            raise
        await self._swap_in(hosted, built, reader)

    async def _build(self, rebuild: Rebuild, reader: ReplicaReader) -> Rebuild:
        """Writes the segment beside the log's.

        A range at the end of a file may have belonged to several segments: the part that does not fit stays damaged, and is
        healed next.
        """
        files, segment, last = rebuild.files, rebuild.segment, rebuild.ranges[-1]
        files.may_have_gaps = reader.may_have_gaps
        is_open_ended = segment is None or last.position + last.size >= segment.size
        is_open_ended = is_open_ended and not reader.may_have_gaps
        config = rebuild.log.config
        try:
            for one in rebuild.ranges:
                await self._disk.run(files.copy_up_to, one)
                async for batches, headers in reader.read(one.first_offset, one.next_offset):
                    await self._disk.run(files.add, batches, headers)
                    if one is last and is_open_ended and files.size >= config.segment_bytes:
                        rebuild.end = headers[-1].next_offset
                        break
            await self._disk.run(files.finish, config.index_interval_bytes, rebuild.end, reader.aborted)
        except BaseException:
            files.discard()
            raise
        return rebuild

    async def _swap_in(self, hosted: HostedPartition, built: list[Rebuild], reader: ReplicaReader) -> None:
        """Puts the segments into the log in one turn of the loop. Raises NotThere when the log has changed meanwhile."""
        damaged, now_ms = hosted.open_log(), self._clock.now_ms()
        found = list(damaged.damage)
        left = list(built)
        try:
            while left:
                if hosted.is_removed or hosted.offline or not left[0].swap_in(damaged, now_ms):
                    raise NotThere("the log has changed meanwhile")
                self._counters.bytes_healed += left.pop(0).files.added_bytes
        finally:
            for one in left:
                one.files.discard()
        self._maintenance.schedule_segment_deletion(hosted)
        for healed in found:
            if damaged.damage.covers(healed.first_offset) is None:
                self._counters.ranges_healed += 1
                log.warning(
                    "%s: offsets %d to %d were damaged and are now repaired from %s",
                    hosted.name, healed.first_offset, healed.next_offset - 1, reader.source,
                )  # fmt: skip
        hosted.wake_readers()
        await self._disk.run(_make_durable, damaged)


def _make_durable(healed: Log) -> None:
    sync_directory(healed.path)
    healed.damage.save()


def _is_another_segment(damaged: Log, segment: Segment, damaged_range: DamagedRange) -> bool:
    """Returns True if a range at a file's end is probably a segment of its own, judged by the file's bytes per offset."""
    if damaged_range.size or damaged_range.position < segment.size or not segment.size:
        return False
    bytes_per_offset = segment.size / max(1, damaged_range.first_offset - segment.base_offset)
    expected = segment.size + bytes_per_offset * (damaged_range.next_offset - damaged_range.first_offset)
    return expected > MOST_GROWTH * damaged.config.segment_bytes


def _segment_of(damaged: Log, damaged_range: DamagedRange) -> Segment | None:
    """Returns the segment whose file the range is in; None when there is no such file."""
    segment = damaged.segment_of(damaged_range.first_offset)
    return (
        segment if damaged.directory.file(segment.base_offset, LOG_SUFFIX).endswith(f"/{damaged_range.file}") else None
    )
