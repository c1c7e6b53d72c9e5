"""Splits without the closed segments in files that a query does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from .directory import segments_of, topic_id_of
from .segment import Segment
from .split import Split


def without_segments(splits: Sequence[Split], is_needed: Callable[[Segment], bool]) -> Iterator[Split]:
    """The splits, in order, without the closed segments in files that are not needed."""
    listed: dict[str, list[Segment]] = {}
    for split in splits:
        if split.path is None:
            yield split
            continue
        if split.path not in listed:
            listed[split.path] = _segments(split)
        yield from _narrowed(split, listed[split.path], is_needed)


def _segments(split: Split) -> list[Segment]:
    assert split.path is not None
    with suppress(OSError):
        if split.topic_id is None or topic_id_of(split.path) == split.topic_id:
            return segments_of(split.path)
    return []  # the reader of the split reports it


def _narrowed(split: Split, segments: Sequence[Segment], is_needed: Callable[[Segment], bool]) -> Iterator[Split]:
    first = split.first_offset
    for segment in segments:
        if segment.next_base is None or segment.next_base <= first:
            continue
        if segment.base_offset >= split.next_offset:
            break
        if is_needed(segment):
            continue
        if first < segment.base_offset:
            yield split.part(first, segment.base_offset)
        first = segment.next_base
    if first < split.next_offset:
        yield split.part(first, split.next_offset)
