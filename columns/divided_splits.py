"""Splits divided into smaller ones: at the indexed batches of files, or at offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from .batch_selection import Aborted
from .plan import PartitionPlan
from .segment import Segment, indexed_position, offset_index, position_of_offset
from .split import Split


def splits_of_files(whole: Split, segments: Sequence[Segment], split_bytes: int) -> tuple[Split, ...]:
    """Cuts a split at indexed batches into some of about `split_bytes`, which may span segments."""
    if whole.first_offset >= whole.next_offset:
        return ()
    cuts: list[tuple[int, int, int]] = []  # first offset, base offset of the segment, position
    sizes: list[int] = []
    filled = 0
    for segment in segments:
        is_before = segment.next_base is not None and segment.next_base <= whole.first_offset
        if is_before or segment.base_offset >= whole.next_offset:
            continue
        position, offset = _beginning(segment, whole)
        stop = position_of_offset(segment, whole.next_offset)[0] if segment.next_base is None else segment.size
        if not cuts:
            cuts.append((whole.first_offset, segment.base_offset, position if offset == whole.first_offset else 0))
            sizes.append(0)
        elif filled >= split_bytes and segment.base_offset > cuts[-1][0]:
            cuts.append((segment.base_offset, segment.base_offset, 0))
            sizes.append(0)
            filled = 0
        index = offset_index(segment) if stop - position + filled > split_bytes else None
        while index is not None and filled + stop - position > split_bytes:
            at, offset = indexed_position(segment, position + max(split_bytes - filled, 1), index)
            if at <= position or not cuts[-1][0] < offset < whole.next_offset:
                break
            sizes[-1] += at - position
            cuts.append((offset, segment.base_offset, at))
            sizes.append(0)
            position, filled = at, 0
        sizes[-1] += max(segment.size - position, 0) if segment.next_base is not None else max(stop - position, 0)
        filled += segment.size - position
    ends = [offset for offset, _, _ in cuts[1:]] + [whole.next_offset]
    return tuple(
        replace(
            whole, first_offset=offset, next_offset=end, base_offset=base, position=position, size=size,
            aborted=overlapping(whole.aborted, offset, end),
        )
        for (offset, base, position), end, size in zip(cuts, ends, sizes, strict=True)
    )  # fmt: skip


def _beginning(segment: Segment, whole: Split) -> tuple[int, int]:
    if whole.first_offset <= segment.base_offset:
        return 0, segment.base_offset
    return position_of_offset(segment, whole.first_offset)


def overlapping(aborted: Sequence[Aborted] | None, first: int, end: int) -> tuple[Aborted, ...] | None:
    """Aborted transactions with batches from `first` up to `end`, or with their marker there."""
    if aborted is None:
        return None
    return tuple(one for one in aborted if one.last_offset >= first and one.first_offset < end)


def sized(plan: PartitionPlan, log_bytes: int, split_bytes: int) -> list[Split]:
    """The splits of a partition, each of about `split_bytes` at most. Those without a size have one by that of the log."""
    per_offset = log_bytes / max(plan.log_end - plan.log_start, 1)
    made: list[Split] = []
    for split in plan.splits:
        size = split.size or int(per_offset * (split.next_offset - split.first_offset))
        made += divided(replace(split, size=size), -(-size // split_bytes))
    return made


def divided(split: Split, parts: int) -> list[Split]:
    """Cuts a split at offsets into parts of equal numbers of offsets."""
    count = split.next_offset - split.first_offset
    parts = max(1, min(parts, count))
    if parts == 1:
        return [split]
    bounds = [split.first_offset + count * number // parts for number in range(parts + 1)]
    return [replace(split.part(*pair), size=split.size // parts) for pair in pairwise(bounds)]
