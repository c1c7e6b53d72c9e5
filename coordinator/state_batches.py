"""Combination of state batches that were written one after the other, into one list without overlaps.

Where two batches overlap, the one with the higher delivery count wins, then the one with the higher state. So the
result does not depend on their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

UNINITIALIZED_OFFSET = -1


class StateBatch(NamedTuple):
    first: int
    last: int
    state: int
    delivery_count: int


def combine(batches: Iterable[StateBatch], start_offset: int = UNINITIALIZED_OFFSET) -> tuple[StateBatch, ...]:
    """Returns batches in offset order, without offsets below `start_offset`. Joins equal neighbours. A batch that
    ends before it begins, which no coordinator writes, has no offsets.
    """
    begins: dict[int, list[StateBatch]] = {}
    ends: dict[int, list[StateBatch]] = {}
    for batch in batches:
        if batch.last >= max(batch.first, start_offset):
            begins.setdefault(max(batch.first, start_offset), []).append(batch)
            ends.setdefault(batch.last + 1, []).append(batch)
    combined: list[StateBatch] = []
    open_batches: list[StateBatch] = []
    places = sorted(begins.keys() | ends.keys())
    for place, next_place in itertools.pairwise(places):
        for ended in ends.get(place, ()):
            open_batches.remove(ended)
        open_batches += begins.get(place, ())
        if open_batches:
            _add(combined, place, next_place - 1, max(open_batches, key=_rank))
    return tuple(combined)


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state


def _add(combined: list[StateBatch], first: int, last: int, batch: StateBatch) -> None:
    before = combined[-1] if combined else None
    if before is not None and before.last + 1 == first and _rank(before) == _rank(batch):
        combined[-1] = before._replace(last=last)
    else:
        combined.append(StateBatch(first, last, batch.state, batch.delivery_count))
