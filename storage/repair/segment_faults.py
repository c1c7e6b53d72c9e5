"""Faults in the segments of a stopped partition: damage, and poisoned batches.

Damage is bytes that are no whole batches in the order of their offsets. A poisoned batch is whole, its CRC is right, and
consumers cannot read its records. One walk finds both, and goes on behind damage. `odradek repair` and `odradek doctor`
show the damage, `odradek log check` and `odradek doctor` the poisoned batches, `odradek log skip` replaces one of these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..files.segment_files import LOG_SUFFIX, base_offset_of
from ..segments.batches import DEFAULT_INDEX_INTERVAL_BYTES, NO_WHOLE_BATCH, scan
from ..segments.poison import fault_of

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader


class SegmentFault(NamedTuple):
    """Bytes of a segment's file that hold the offsets from `first_offset` up to `next_offset`.

    `header`: of a poisoned batch; None for damage. `is_tail`: no whole batch follows, and `next_offset` is not known.
    """

    file: str
    position: int
    size: int
    first_offset: int
    next_offset: int
    reason: str
    header: BatchHeader | None = None
    is_tail: bool = False


def segment_names(path: str) -> list[str]:
    """Returns the names of a partition's segments, ordered by offset."""
    names = (name for name in os.listdir(path) if name.endswith(LOG_SUFFIX) and base_offset_of(name) is not None)
    return sorted(name for name in names if os.path.isfile(f"{path}/{name}"))


def segment_faults(path: str, name: str, *, reads_records: bool) -> list[SegmentFault]:
    """Returns the faults of one segment by position; without `reads_records` only the damage.

    Raises OSError, OldFormatInLog.
    """
    faults: list[SegmentFault] = []

    def read_records(position: int, header: BatchHeader, batch: memoryview) -> None:
        reason = fault_of(header, batch)
        if reason is not None:
            offsets = (header.base_offset, header.next_offset)
            faults.append(SegmentFault(name, position, header.size, *offsets, reason, header))

    file, base_offset = f"{path}/{name}", base_offset_of(name)
    assert base_offset is not None, "the name of a segment"
    size = os.stat(file).st_size
    on_batch = read_records if reads_records else None
    whole = scan(file, base_offset, size, DEFAULT_INDEX_INTERVAL_BYTES, on_batch)
    faults += [SegmentFault(name, *hole) for hole in whole.holes]
    if whole.size < size:
        offset = whole.next_offset
        faults.append(SegmentFault(name, whole.size, size - whole.size, offset, offset, NO_WHOLE_BATCH, is_tail=True))
    return sorted(faults, key=_position)


def partition_faults(path: str, *, reads_records: bool) -> Iterator[SegmentFault]:
    """Yields the faults of a partition's segments by offset. Raises OSError, OldFormatInLog."""
    for name in segment_names(path):
        yield from segment_faults(path, name, reads_records=reads_records)


def _position(fault: SegmentFault) -> int:
    return fault.position
