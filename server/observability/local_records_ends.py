"""Ends of records of the partitions that this broker leads: whether markers of transactions alone follow the commits of
groups. The last batches of a log have them.

What the page cache has is read at once; a thread reads the rest. At most one thread of a broker does so, however often it is
scraped: a slow disk costs neither the scrapes nor the threads of other disks. A later scrape finds in the page cache what
came too late for an earlier one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...admin.markers import MARKER_BYTES, Gap, records_end_in
from ...protocol.records.errors import BatchError
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.page_cache import pread_nowait
from ...storage.log.log import OffsetOutOfRange

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ...storage.segments.slices import LogSlice
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.thread_pools import ThreadPool

RecordsEnds = dict["TopicPartition", int]
#: Reads of batches that are not in the page cache, each with its gap.
ColdReads = dict["TopicPartition", tuple[Gap, Callable[[], "LogSlice"]]]

#: Partitions that are looked at in one turn of the loop.
_LOOKED_AT_ONCE = 20


class LocalRecordsEnds:
    """`disk`: the threads that wait for disks."""

    def __init__(self, disk: ThreadPool) -> None:
        self._disk = disk
        self._is_reading = False

    async def cached(self, partitions: Partitions, gaps: Mapping[TopicPartition, Gap]) -> tuple[RecordsEnds, ColdReads]:
        """Returns the offset after the last record of each gap that is in the page cache, and how to read the others."""
        found: RecordsEnds = {}
        cold: ColdReads = {}
        for number, (place, gap) in enumerate(gaps.items()):
            hosted = partitions.get(place)
            if hosted is None or not hosted.is_leader:
                continue
            read = _read_of(hosted, gap)
            try:
                data = _batches(lambda read=read: read(pread=pread_nowait).bytes_nowait())  # type: ignore[misc]
            except BlockingIOError:
                data = None
            if data is None:
                cold[place] = gap, read
            else:
                _note(found, place, gap, data)
            if number % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
        return found, cold

    def read(self, cold: ColdReads, done: Callable[[RecordsEnds], None]) -> None:
        """`done` gets the ends that a thread has read; none of them while it reads for an earlier scrape."""
        if self._is_reading or not cold:
            done({})
            return
        self._is_reading = True

        def ended(ends: RecordsEnds | BaseException) -> None:
            self._is_reading = False
            if isinstance(ends, BaseException):
                raise ends
            done(ends)

        self._disk.run_then(partial(_read_all, cold), ended)


def _read_of(hosted: HostedPartition, gap: Gap) -> Callable[..., LogSlice]:
    return partial(hosted.open_log().read, gap.offset, MARKER_BYTES, gap.end, min_one_batch=False)


def _batches(read: Callable[[], bytes | bytearray | None]) -> bytes | bytearray | None:
    """The batches of a gap; none where a read fails, and where they take more bytes than markers. Raises BlockingIOError."""
    try:
        return read()
    except BlockingIOError:
        raise
    except (OffsetOutOfRange, BatchError, LogDirectoryFailure, OSError):
        return b""


def _read_all(cold: ColdReads) -> RecordsEnds:
    """Reads for a thread."""
    found: RecordsEnds = {}
    for place, (gap, read) in cold.items():
        _note(found, place, gap, _batches(lambda read=read: read().bytes()) or b"")  # type: ignore[misc]
    return found


def _note(ends: RecordsEnds, place: TopicPartition, gap: Gap, data: bytes | bytearray) -> None:
    end = records_end_in(data, gap)
    if end is not None:
        ends[place] = end
