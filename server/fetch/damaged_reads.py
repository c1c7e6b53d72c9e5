"""Reads that meet damage: wait for the inspection of a segment, or for healing, or answer CORRUPT_MESSAGE."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...storage.segments.damage import SegmentSuspected
from ...storage.segments.slices import LogSlice
from ..partitions.sendable_records import NotInPageCache, in_page_cache, sendable, warm
from .fetch_response import nothing_yet

if TYPE_CHECKING:
    from ...storage.segments.damage import OffsetDamaged
    from ..partitions.hosted_partition import HostedPartition
    from ..replicas.scrubber import Scrubber
    from .fetch_response import FetchResult
    from .fetched_partition import FetchedPartition

#: A request waits for so many inspections at the most: each finds all damage of its segment.
MOST_INSPECTIONS = 8


class Inspection(Exception):
    """A read met something else than a batch: it is made again when it is known how far the damage reaches."""

    def __init__(self, hosted: HostedPartition, base_offset: int) -> None:
        super().__init__()
        self.hosted = hosted
        self.base_offset = base_offset


def piece_of(result: FetchResult, *, may_wait: bool) -> Any:
    """Returns the records to send for a partition. Raises NotInPageCache, Inspection."""
    records = result.records
    if type(records) is not LogSlice:
        return None if records is None else records.data
    try:
        return sendable(records, may_wait=may_wait)
    except SegmentSuspected as suspected:
        assert result.hosted is not None
        raise Inspection(result.hosted, suspected.base_offset) from suspected


def check_readable(result: FetchResult) -> None:
    """Raises NotInPageCache or Inspection where the records to send for a partition cannot be read at once."""
    records = result.records
    if type(records) is not LogSlice or result.hosted is None:
        return
    try:
        if not in_page_cache(records):
            raise NotInPageCache(partial(warm, records))
    except SegmentSuspected as suspected:
        raise Inspection(result.hosted, suspected.base_offset) from suspected


def waits_for_healing(
    scrubber: Scrubber, hosted: HostedPartition, wanted: FetchedPartition, met: OffsetDamaged
) -> FetchResult:
    """Returns no records and no error while another replica's are being fetched. Raises `met` where no replica has them."""
    if not hosted.is_healing:
        scrubber.met(hosted, met)
        raise met
    return nothing_yet(hosted, wanted)


def inspects_again(scrubber: Scrubber, hosted: HostedPartition, replica: int, offset: int) -> None:
    """Notes the offset from which a follower got records. A second fetch of that offset means that its CRCs were wrong."""
    last_offsets = hosted.last_read_offsets
    if last_offsets is None:
        last_offsets = hosted.last_read_offsets = {}
    if last_offsets.get(replica) == offset:
        scrubber.doubt(hosted, offset)
    last_offsets[replica] = offset
