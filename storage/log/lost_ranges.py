"""The damaged ranges of a segment that was read through: holes between its whole batches, and a lost end."""

from __future__ import annotations

import os

from ..segments.batches import WholeBatches, batches_of
from ..segments.damage import DamagedRange
from ..segments.segment import Segment


def lost_ranges(
    segment: Segment, whole: WholeBatches, following: int | None, *, is_compacted: bool
) -> list[DamagedRange]:
    """Returns the damaged ranges in order. `following`: the offset at which the next segment begins; None where that is
    not known, and then what is behind the last batch is not among the ranges. `is_compacted`: offsets may be missing.
    """
    name = os.path.basename(segment.path)
    lost = [DamagedRange(name, *hole) for hole in whole.holes]
    if following is not None:
        rest = segment.size - whole.size
        if rest > 0:
            lost.append(DamagedRange(name, whole.size, rest, whole.next_offset, following, "no whole batch"))
        elif whole.next_offset < following and not is_compacted and _is_dense(segment.path, whole):
            lost.append(DamagedRange(name, whole.size, rest, whole.next_offset, following, "the file ends early"))
    return lost


def _is_dense(path: str, whole: WholeBatches) -> bool:
    """Returns whether no offset is left out between the batches: the segment was never compacted."""
    next_offset = None
    for _, header, _ in batches_of(path, whole.size, verify=False):
        if next_offset not in (None, header.base_offset) or header.record_count != header.last_offset_delta + 1:
            return False
        next_offset = header.next_offset
    return True
