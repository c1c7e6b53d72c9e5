"""Responses of ListOffsets for a log whose older part is in the store: -4, -5, -6, and segments to search for a time.

Pure functions of the cache, the log's leader epochs and its ends (KIP-405, KIP-1005, KIP-1023). EARLIEST (-2) is the log
start offset and LATEST (-1) the end, as of other logs. A response is (offset, leader epoch), -1 for none.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..protocol.offsets import NO_OFFSET
from ..storage.log.epochs import epoch_of
from .cache import RemoteLogMetadataCache
from .lineage import Epochs, OffsetAndEpoch, is_within
from .segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata

_NOTHING = OffsetAndEpoch(-1, -1)


def latest_tiered(epochs: Epochs, highest_remote_offset: int) -> OffsetAndEpoch:
    """LATEST_TIERED, -5: the last offset in the store (KIP-1005)."""
    if highest_remote_offset == NO_OFFSET:
        return _NOTHING
    return OffsetAndEpoch(highest_remote_offset, epoch_of(epochs, highest_remote_offset))


def earliest_pending_upload(
    epochs: Epochs, highest_remote_offset: int, log_start_offset: int, local_log_start_offset: int
) -> OffsetAndEpoch:
    """EARLIEST_PENDING_UPLOAD, -6: the first offset that is not in the store (KIP-1023).

    A leader that has records in the store only, and does not have their metadata yet, has no response.
    """
    if highest_remote_offset != NO_OFFSET:
        offset = max(highest_remote_offset + 1, log_start_offset)
    elif local_log_start_offset == log_start_offset:
        offset = log_start_offset
    else:
        return _NOTHING
    return OffsetAndEpoch(offset, epoch_of(epochs, offset))


def segments_for_timestamp(
    cache: RemoteLogMetadataCache,
    epochs: Epochs,
    timestamp: int,
    *,
    log_start_offset: int,
    log_end_offset: int,
    local_log_start_offset: int,
) -> Iterator[RemoteLogSegmentMetadata]:
    """Returns the remote segments that may have the first record with at least `timestamp`, in the order of their offsets.

    The first record found is the response; if there is none, the local log is searched. Segments that are on the disk as
    well are left out, since the local log has them. Kafka searches only the first of these segments, and then the local
    log, so that it misses the record where that segment has it only before the log's start.
    """
    searched_to = log_start_offset - 1
    for epoch, start in epochs:
        if epoch < epoch_of(epochs, log_start_offset):
            continue
        for segment in cache.segments_of(epoch):
            if (
                segment.state is COPY_SEGMENT_FINISHED
                and segment.max_timestamp_ms >= timestamp
                and segment.end_offset > searched_to
                and segment.start_offset < local_log_start_offset
                and segment.end_offset >= start
                and is_within(segment, log_end_offset, epochs)
            ):
                searched_to = segment.end_offset
                yield segment
