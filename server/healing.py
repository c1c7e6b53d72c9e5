"""Fetching damaged records again from other replicas.

Replicas are equal byte for byte, and any of them answers a Fetch as a consumer's (KIP-392), up to the high watermark: a
follower asks its leader, a leader those in sync. So it works with every broker that serves such a Fetch.

```
 damaged  -- wants -->  waiting  -- a replica has it -->  rebuilt beside, synced, swapped in  -->  whole
                           |  ^
              nobody has it |  | after RETRY_S, or more damage
                           v  |
                          shown (CORRUPT_MESSAGE)
```

A segment is written anew beside the damaged one: the sound bytes from the old file, the others from the replica. It takes
the place of the old one in the way of a compacted segment, from which a crash at any point is put right. Readers that have
the old file open keep it. While a partition waits for that, reads of its damaged ranges wait too (`hosted.is_healing`).

In a compacted log a batch that was cleaned away on one replica may be there on another, and a tombstone that hides it gone.
So all closed segments of such a log are taken from one replica.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..protocol.records.errors import BatchError
from ..storage.files import LogDirectoryFailure, sync_directory
from ..storage.rebuilding import RebuiltSegment
from .leaders import broker_endpoint
from .replica_reader import NotThere, ReplicaReader

if TYPE_CHECKING:
    from ..storage.damage import DamagedRange
    from ..storage.log import Log
    from ..storage.segment import Segment
    from .broker import BrokerServer
    from .hosted_partition import HostedPartition
    from .listener import Endpoint

log = logging.getLogger("odradek.damage")

#: When a partition is tried again that no replica could heal, or that is being compacted.
RETRY_S = 5.0
#: Tries after which readers are answered CORRUPT_MESSAGE instead of being left waiting.
PATIENT_TRIES = 2


class Healer:
    """One partition at a time: a disk that is full of holes is not to take the network."""

    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._counters = broker.damage
        #: Partitions with damage, and how often healing them failed.
        self._wanted: dict[HostedPartition, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._healed_now: HostedPartition | None = None
        self._is_stopping = False

    def wants(self, hosted: HostedPartition) -> None:
        """The partition has damage."""
        if self._is_stopping or len(hosted.role.replicas) < 2:
            return
        self._wanted[hosted] = 0
        hosted.is_healing = True
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="healing")

    def works_on(self, hosted: HostedPartition) -> bool:
        """Whether a segment of the log is being written anew now."""
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
        if self._broker.cleaner.works_on(hosted) or self._broker.moves.get(hosted) is not None:
            return
        self._healed_now = hosted
        try:
            await self._heal(hosted)
        except NotThere as reason:
            self._not_healed(hosted, str(reason))
        except BatchError as reason:
            self._not_healed(hosted, str(reason))
        except OSError as error:
            hosted.on_failure(LogDirectoryFailure(hosted.log.log_directory, f"healing {hosted.log.path}", error))
        except LogDirectoryFailure as failure:
            hosted.on_failure(failure)
        except Exception:
            log.exception("a bug: %s is not healed", hosted.name)
            self._not_healed(hosted, "a bug")
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
        words = "%s: what is damaged cannot be fetched from another replica, and is tried again: %s"
        self._counters.say((hosted.name, "healing"), words, hosted.name, reason, level=logging.WARNING)

    # ---- one partition

    async def _heal(self, hosted: HostedPartition) -> None:
        """Raises NotThere, BatchError, OSError, LogDirectoryFailure."""
        damaged = hosted.log
        if any(one.next_offset > damaged.active.base_offset for one in damaged.damage):
            damaged.roll(self._broker.now_ms())
        is_whole = damaged.config.compact or self._broker.cleaner.has_cleaned(hosted)
        reason = "no other replica is in sync"
        for endpoint in self._sources(hosted):
            reader = ReplicaReader(self._broker, hosted, endpoint)
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
        """The leader first, then those in sync."""
        role, own = hosted.role, self._broker.node_id
        ids = dict.fromkeys(one for one in (role.leader, *role.isr) if one >= 0 and one != own)
        found = [broker_endpoint(self._broker, one) for one in ids]
        return [endpoint for endpoint in found if endpoint is not None]

    async def _take_damaged(self, hosted: HostedPartition, reader: ReplicaReader) -> None:
        """Each damaged segment is made of its sound bytes and of what the replica has for the others."""
        damaged = hosted.log
        while damaged.damage:
            first = next(iter(damaged.damage))
            segment = damaged.segment_of(first.first_offset)
            name = damaged.place.file(segment.base_offset, ".log").rpartition("/")[2]
            ranges = damaged.damage.in_file(first.file)
            if name == first.file:
                await self._rebuild(hosted, segment, segment.base_offset, segment.next_offset, ranges, reader)
            else:
                await self._rebuild(hosted, None, first.first_offset, first.next_offset, [first], reader)

    async def _take_all(self, hosted: HostedPartition, reader: ReplicaReader) -> None:
        """Every closed segment is made of what the replica has, gaps between them too."""
        taken = hosted.log
        reader.may_have_gaps = True
        for one in [one for one in taken.damage if _is_between(taken, one)]:
            await self._rebuild(hosted, None, one.first_offset, one.next_offset, [one], reader)
        for segment in list(taken.segments[:-1]):
            whole = _whole(segment)
            await self._rebuild(hosted, segment, segment.base_offset, segment.next_offset, [whole], reader)

    async def _rebuild(
        self,
        hosted: HostedPartition,
        segment: Segment | None,
        base_offset: int,
        next_offset: int,
        ranges: list[DamagedRange],
        reader: ReplicaReader,
    ) -> None:
        """`segment` is the one to replace; None where there is no file any more."""
        damaged, now_ms = hosted.log, self._broker.now_ms
        path, generation, before = damaged.path, damaged.generation, len(damaged.damage)
        rebuilt = RebuiltSegment(damaged.place, base_offset, next_offset, segment, may_have_gaps=reader.may_have_gaps)
        try:
            for one in ranges:
                await asyncio.to_thread(rebuilt.copy_up_to, one)
                async for batches, headers in reader.read(one.first_offset, one.next_offset):
                    await asyncio.to_thread(rebuilt.add, batches, headers)
            await asyncio.to_thread(rebuilt.finish, damaged.config.index_interval_bytes)
            if hosted.is_removed or hosted.offline or (damaged.path, damaged.generation) != (path, generation):
                raise NotThere("the log has changed meanwhile")
            if segment is None:
                is_swapped = damaged.insert(base_offset, next_offset, now_ms())
            else:
                is_swapped = damaged.replace(base_offset, [segment], now_ms())
            if not is_swapped:
                raise NotThere("the segment has gone meanwhile")
        except BaseException:
            rebuilt.discard()
            raise
        await asyncio.to_thread(_make_durable, damaged)
        self._broker.upkeep.note_doomed(hosted)
        self._counters.ranges_healed += before - len(damaged.damage)
        self._counters.records_bytes_healed += rebuilt.added_bytes
        if before != len(damaged.damage):
            log.warning(
                "%s: offsets %d to %d were damaged, and have been fetched from %s",
                hosted.name, ranges[0].first_offset, ranges[-1].next_offset - 1, reader.source,
            )  # fmt: skip
        hosted.wake_readers()


def _make_durable(healed: Log) -> None:
    sync_directory(healed.path)
    healed.damage.save()


def _whole(segment: Segment) -> DamagedRange:
    from ..storage.damage import DamagedRange

    return DamagedRange("", 0, segment.size, segment.base_offset, segment.next_offset, "")


def _is_between(taken: Log, one: DamagedRange) -> bool:
    """Whether there is no segment for the range."""
    segment = taken.segment_of(one.first_offset)
    return taken.place.file(segment.base_offset, ".log").rpartition("/")[2] != one.file
