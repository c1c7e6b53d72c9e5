"""The batches that have records of a scan: by offsets, timestamps, and aborted transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from . import layout
from .layout import Numbers

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class Bounds(NamedTuple):
    """Records with these offsets and timestamps in ms. All bounds are inclusive: there is a timestamp of 2^63-1."""

    first_offset: int = 0
    last_offset: int = _INT64_MAX
    first_timestamp: int = _INT64_MIN
    last_timestamp: int = _INT64_MAX

    @property
    def has_times(self) -> bool:
        return self.first_timestamp != _INT64_MIN or self.last_timestamp != _INT64_MAX


class Aborted(NamedTuple):
    """An aborted transaction: the batches of `producer_id` from `first_offset` up to its marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


def data_rows(rows: Numbers, bounds: Bounds, aborted: Sequence[Aborted] | None) -> Numbers:
    """Returns which of the batches have records of a scan. `aborted`: of read_committed; None reads uncommitted ones."""
    attributes, base = rows[:, layout.ATTRIBUTES], rows[:, layout.BASE_OFFSET]
    last = base + rows[:, layout.LAST_DELTA]
    wanted = (attributes & CONTROL_FLAG == 0) & (rows[:, layout.COUNT] > 0)
    wanted &= (last >= bounds.first_offset) & (base <= bounds.last_offset)
    if bounds.first_timestamp != _INT64_MIN:
        wanted &= rows[:, layout.MAX_TIMESTAMP] >= bounds.first_timestamp
    if aborted and len(rows):
        lowest, highest = int(base[0]), int(last[-1])
        transactional = attributes & TRANSACTIONAL_FLAG != 0
        for one in aborted:
            if one.first_offset <= highest and one.last_offset >= lowest:
                inside = (base >= one.first_offset) & (base <= one.last_offset)
                wanted &= ~(transactional & inside & (rows[:, layout.PRODUCER_ID] == one.producer_id))
    return wanted


def count_rows(rows: Numbers, wanted: Numbers) -> int:
    return int(rows[wanted, layout.COUNT].sum())
