"""The part of a log that has not been compacted.

`look` finds it, cheaply. The server takes the dirtiest log that `needs_cleaning`. Nothing at or above the last stable
offset, and nothing of the active segment, is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..files.segment_files import base_offset_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..log.config import LogConfig
    from ..log.log import Log
    from ..segments.segment import Segment


@dataclass(slots=True, frozen=True)
class DirtyRange:
    """The part of a log that has not been compacted: [first_dirty_offset, end_offset) may be."""

    first_dirty_offset: int
    end_offset: int
    dirty_bytes: int
    total_bytes: int
    is_overdue: bool
    #: The checkpoint was outside of the log, and is to be replaced by `first_dirty_offset`.
    is_checkpoint_wrong: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    def needs_cleaning(self, config: LogConfig) -> bool:
        """By `min.cleanable.dirty.ratio`, or because `max.compaction.lag.ms` has passed."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def look(log: Log, cleaner_offset: int | None, last_stable_offset: int, now_ms: int) -> DirtyRange:
    """`cleaner_offset`: the offset in the cleaner's checkpoint, None if the checkpoint has none for the log."""
    start = log.log_start_offset
    first_dirty = start if cleaner_offset is None else cleaner_offset
    is_wrong = not start <= first_dirty <= log.log_end_offset
    first_dirty = start if is_wrong else first_dirty
    end = max(first_dirty, _uncleanable_from(log, first_dirty, last_stable_offset, now_ms))
    inactive = sound(log, log.segments[:-1])
    dirty = [segment for segment in inactive if segment.next_offset > first_dirty and segment.base_offset < end]
    clean_bytes = sum(segment.size for segment in inactive if segment.next_offset <= first_dirty)
    dirty_bytes = sum(segment.size for segment in dirty)
    lag_ms = log.config.max_compaction_lag_ms
    is_overdue = any(0 < segment.first_timestamp() < now_ms - lag_ms for segment in dirty)
    return DirtyRange(first_dirty, end, dirty_bytes, clean_bytes + dirty_bytes, is_overdue, is_wrong)


def _uncleanable_from(log: Log, first_dirty: int, last_stable_offset: int, now_ms: int) -> int:
    """The base of the first segment that is active, unstable, or too young (`min.compaction.lag.ms`)."""
    lag_ms = log.config.min_compaction_lag_ms
    for segment in log.segments[:-1]:
        if segment.next_offset > last_stable_offset:
            return segment.base_offset
        if lag_ms > 0 and segment.next_offset > first_dirty and _newest_ms(segment) > now_ms - lag_ms:
            return segment.base_offset
    return log.active.base_offset


def _newest_ms(segment: Segment) -> int:
    newest = segment.largest_timestamp()
    return newest if newest >= 0 else segment.modified_ms()


def sound(log: Log, segments: Sequence[Segment]) -> list[Segment]:
    """Returns the segments without damage. A damaged one stays as it is: parts of it can be read, and it may be healed."""
    damaged = {base_offset_of(one.file) for one in log.damage}
    return [segment for segment in segments if segment.base_offset not in damaged]
