"""Reads that meet damage: wait for the inspection of a segment, or for healing, or answer CORRUPT_MESSAGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...storage.segments.damage import OffsetDamaged, SegmentSuspected
from ..partitions.page_cache import sendable
from .fetch_response import Found, nothing_yet

if TYPE_CHECKING:
    from ..log_maintenance.scrubber import Scrubber
    from ..partitions.hosted_partition import HostedPartition
    from .fetch_session import FetchedPartition

#: A request waits for so many inspections at the most: each finds all damage of its segment.
MOST_INSPECTIONS = 8


class Inspection(Exception):
    """A read met something else than a batch: it is made again when it is known how far the damage reaches."""

    def __init__(self, hosted: HostedPartition, base_offset: int) -> None:
        super().__init__()
        self.hosted = hosted
        self.base_offset = base_offset


def piece_of(one: Found, *, may_wait: bool) -> Any:
    """Returns the records to send for a partition. Raises NotInPageCache, Inspection."""
    if one.records is None:
        return None
    try:
        return sendable(one.records, may_wait=may_wait)
    except SegmentSuspected as suspected:
        assert one.hosted is not None
        raise Inspection(one.hosted, suspected.base_offset) from suspected


def waits_for_healing(
    scrubber: Scrubber, hosted: HostedPartition, wanted: FetchedPartition, met: OffsetDamaged
) -> Found:
    """Returns no records and no error while another replica's are being fetched. Raises `met` where no replica has them."""
    if not hosted.is_healing:
        scrubber.met(hosted, met)
        raise met
    return nothing_yet(hosted, wanted)


def inspects_again(scrubber: Scrubber, hosted: HostedPartition, replica: int, offset: int) -> None:
    """Notes the offset from which a follower got records. A second fetch of that offset means that its CRCs were wrong."""
    given = hosted.given
    if given is None:
        given = hosted.given = {}
    if given.get(replica) == offset:
        scrubber.doubt(hosted, offset)
    given[replica] = offset
