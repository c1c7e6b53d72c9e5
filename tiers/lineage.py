"""Leader epochs of a log against those of remote segments: segments of the log's history, and the end of the copied part.

Epochs are (epoch, its first offset), both ascending, as in `leader-epoch-checkpoint`. A remote segment may be of another
history: an unclean election gave its offsets to other records. Kafka's functions are in `RemoteLogManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..protocol.offsets import NO_OFFSET
from ..storage.log.epochs import UNDEFINED_EPOCH, epoch_of
from .cache import RemoteLogMetadataCache
from .segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata

Epochs = Sequence[tuple[int, int]]
NO_EPOCH = UNDEFINED_EPOCH
_FAR = 1 << 62


class OffsetAndEpoch(NamedTuple):
    """`offset` is NO_OFFSET, and `epoch` NO_EPOCH, where nothing is copied."""

    offset: int
    epoch: int


def without_empty(epochs: Epochs) -> list[tuple[int, int]]:
    """Returns the epochs that have records: those after which another one begins at another offset, and the last."""
    return [one for number, one in enumerate(epochs) if number + 1 == len(epochs) or epochs[number + 1][1] != one[1]]


def epochs_in_range(epochs: Epochs, start_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
    """Returns the epochs of the records from `start_offset` up to before `end_offset`; the first one begins there."""
    found = [(epoch, max(start, start_offset)) for epoch, start in epochs if start < end_offset]
    first = max((number for number, (_, start) in enumerate(found) if start <= start_offset), default=0)
    return tuple(found[first:])


def extended_epochs(
    segments: Iterable[RemoteLogSegmentMetadata], epochs: Epochs, local_log_start_offset: int
) -> list[tuple[int, int]]:
    """Returns the epochs of a log with those of copied segments before them, as far as these lead back without a hole.

    For a log whose own epochs begin with its local part. Where segments of several histories have the record before the
    first known one, the newest epoch that is not above the known one's is right: that leader's log was the longest.
    """
    found = list(epochs)
    ending: dict[int, list[RemoteLogSegmentMetadata]] = {}
    copied = [one for one in segments if one.state is COPY_SEGMENT_FINISHED]
    for segment in copied:
        ending.setdefault(segment.end_offset + 1, []).append(segment)
    first, offset = found[0] if found else (1 << 31, local_log_start_offset)
    while offset > 0:
        there = ending.get(offset) or [one for one in copied if one.start_offset < offset <= one.end_offset]
        ordered = [(epoch_of(one.epochs, offset - 1), one.segment_id, one) for one in there]
        candidates = [one for one in ordered if one[0] <= first]
        if not candidates:
            break
        segment = max(candidates)[2]
        for epoch, start in reversed([one for one in segment.epochs if one[1] < offset]):
            if found and found[0][0] == epoch:
                found[0] = (epoch, start)
            else:
                found.insert(0, (epoch, start))
        first, offset = found[0]
        offset = segment.start_offset
    return found


def is_within(segment: RemoteLogSegmentMetadata, log_end_offset: int, epochs: Epochs) -> bool:
    """Returns whether the segment is of the history of a log with these epochs (Kafka's
    `isRemoteSegmentWithinLeaderEpochs`).

    Its epochs before the log's first one do not count: the log's start may have moved into the segment.
    """
    log, own = without_empty(epochs), without_empty(segment.epochs)
    if not log or segment.end_offset >= log_end_offset or not log[0][0] <= own[-1][0] <= log[-1][0]:
        return False
    starts, following = dict(log), dict(zip((epoch for epoch, _ in log), [*log[1:], None], strict=True))
    kept = [one for one in own if one[0] >= log[0][0]]
    for number, (epoch, offset) in enumerate(kept):
        if epoch not in starts:
            return False
        if number == 0 and epoch != log[0][0] and offset < starts[epoch]:
            return False
        after = following[epoch]
        if number + 1 < len(kept):
            if after != kept[number + 1]:
                return False
        elif after is not None and segment.end_offset >= after[1]:
            return False
    return True


def common_end(segment: RemoteLogSegmentMetadata, epochs: Epochs, offset: int) -> int:
    """Returns the offset after the last record of a segment, from `offset` on, that is of the history of a log with these
    epochs.

    The rest may be of another history: its leader's log was shorter, and a later leader had what it lacked.
    """
    while offset <= segment.end_offset:
        epoch = epoch_of(segment.epochs, offset)
        if epoch == UNDEFINED_EPOCH or epoch != epoch_of(epochs, offset):
            break
        offset = min(segment.epoch_end_offset(epoch) + 1, _epoch_end(epochs, epoch))
    return offset


def _epoch_end(epochs: Epochs, epoch: int) -> int:
    return next((start for other, start in epochs if other > epoch), _FAR)


def highest_remote_offset(cache: RemoteLogMetadataCache, epochs: Epochs, log_end_offset: int) -> OffsetAndEpoch:
    """Returns the last offset of the log that is copied: of its latest epoch with a copy (`findHighestRemoteOffset`).

    Copies of offsets that are no longer the epoch's, since the log was cut, do not count.
    """
    end = log_end_offset
    for epoch, start in reversed(epochs):
        highest = cache.highest_offset(epoch)
        if highest != NO_OFFSET:
            return OffsetAndEpoch(min(highest, end - 1), epoch)
        end = start
    return OffsetAndEpoch(NO_OFFSET, NO_EPOCH)


def remote_start_offset(cache: RemoteLogMetadataCache, epochs: Epochs) -> int | None:
    """Returns the start of the first segment of the log's epochs, or None: the log's start for a new leader
    (`findLogStartOffset`).

    Kafka counts segments whose copy has not ended, or whose deletion has begun. Those have no records to read.
    """
    for epoch, _ in epochs:
        for segment in cache.segments_of(epoch):
            if segment.state is COPY_SEGMENT_FINISHED:
                return segment.start_offset
    return None
