"""The offsets at which the last N records of partitions begin.

The last offsets of a log may have no record: markers of transactions, aborted records, and what compaction has removed. So
the records before the end are counted, in windows that double. Where no more offsets are left than records are missing,
all of them count, and nothing is read: a topic of fewer records than N would be read twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from ..admin.places import Place
from ..admin.positions import BEGINNING, END
from .consumed import ConsumedRecord

_BATCH = 10_000


class RangeReader(Protocol):
    """A reader of ranges of offsets."""

    def offsets_at(self, places: Collection[Place], offset: int) -> Mapping[Place, int]: ...

    def begin_within(self, ranges: Mapping[Place, tuple[int, int]]) -> None: ...

    def batches(self, most: int) -> Iterator[Sequence[ConsumedRecord]]: ...


def tail_starts(reader: RangeReader, places: Collection[Place], count: int) -> Mapping[Place, int]:
    """The offset of the record that has `count - 1` after it, else of the log's start. Without partitions that have no
    leader now.
    """
    first, ends = reader.offsets_at(places, BEGINNING), reader.offsets_at(places, END)
    starts = {place: first[place] for place, end in ends.items() if 0 <= first.get(place, -1) <= end}
    missing, highs, width = dict.fromkeys(starts, count), dict(ends), count
    while ranges := {
        place: (max(first[place], highs[place] - width), highs[place])
        for place in missing
        if highs[place] - first[place] > missing[place]
    }:
        last: dict[Place, deque[int]] = {place: deque(maxlen=missing[place]) for place in ranges}
        counts: Counter[Place] = Counter()
        reader.begin_within(ranges)
        for batch in reader.batches(_BATCH):
            for message in batch:
                place = (message.topic(), message.partition())
                last[place].append(message.offset())
                counts[place] += 1
        for place, (low, _) in ranges.items():
            if counts[place] >= missing[place]:
                starts[place] = last[place][0]
                del missing[place]
            else:
                missing[place] -= counts[place]
                highs[place] = low
        width *= 2
    return starts
