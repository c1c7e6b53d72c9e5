"""Checks of a whole opened log, too dear for each append: simulations and tests make them after each event."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..segments.segment import Segment
    from .log import Log


def check_log(log: Log) -> None:
    """Raises AssertionError where a part of the log contradicts another one. Reads sizes of files, and no content."""
    assert log.segments, f"{log!r} has no segment"
    for segment, following in pairwise(log.segments):
        bases = segment.base_offset, following.base_offset
        assert bases[0] < bases[1], f"{log!r}: segments {bases} are not in order"
        assert segment.next_offset == bases[1], f"{log!r}: {segment!r} ends at {segment.next_offset}, not at {bases[1]}"
    end, last = log.log_end_offset, log.active
    # A cut within a batch keeps the offsets of its first records, without bytes: the segment ends before the log.
    assert last.next_offset <= end, f"{log!r}: its last segment ends at offset {last.next_offset}"
    assert log.log_start_offset <= end, f"{log!r} starts behind its end"
    assert log.recovery_point <= end, f"{log!r} is flushed up to offset {log.recovery_point}"
    assert log.producers.end_offset <= end, f"{log!r} has producers up to offset {log.producers.end_offset}"
    for segment in log.segments:
        _check_segment(segment)
    _check_epochs(log)
    _check_producers(log)


def _check_segment(segment: Segment) -> None:
    if segment.is_planned:
        return
    size = os.stat(segment.path).st_size
    assert segment.size <= size, f"{segment!r} has {segment.size} bytes, its file {size}"
    offsets = segment.offset_index
    if len(offsets):
        assert segment.base_offset <= offsets.last_offset < segment.next_offset, (
            f"{segment!r}: the index ends with offset {offsets.last_offset}"
        )
        assert offsets.last_position < segment.size, (
            f"{segment!r}: the index ends with position {offsets.last_position}"
        )
    times = segment.time_index
    if len(times):
        assert segment.base_offset <= times.last_offset < segment.next_offset, (
            f"{segment!r}: the time index ends with offset {times.last_offset}"
        )
        assert times.last_timestamp <= segment.largest_timestamp(), (
            f"{segment!r}: the time index ends with timestamp {times.last_timestamp}"
        )


def _check_epochs(log: Log) -> None:
    entries = log.epochs.entries()
    for one, following in pairwise(entries):
        assert one[0] < following[0] and one[1] < following[1], f"{log!r}: epochs {one} and {following}"
    if entries:
        assert entries[-1][1] <= log.log_end_offset, f"{log!r}: the last epoch begins at offset {entries[-1][1]}"
        assert log.epochs.latest == entries[-1][0], f"{log!r}: epoch {log.epochs.latest} after {entries[-1]}"


def _check_producers(log: Log) -> None:
    for producer in log.producers.by_id.values():
        for batch in producer.batches:
            assert batch.last_offset < log.log_end_offset, f"{log!r}: producer {producer.producer_id} wrote {batch}"
