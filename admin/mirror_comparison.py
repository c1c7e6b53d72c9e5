"""The batches of mirrored partitions compared with their source's: offsets, sizes and CRCs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..protocol.log_places import EARLIEST, LATEST
from ..replication.mirror.partition import Batch
from .batch_headers import BatchHeaders, CheckedBatch
from .log_offsets import list_offsets

if TYPE_CHECKING:
    from .places import Place
    from .session import Admin

#: Differences of a partition that are described; the others are counted.
MOST_DESCRIBED = 5


@dataclass(slots=True)
class Comparison:
    """`first` and `end`: the offsets that both sides have. `batches`: how many were compared.

    `only_here`, `only_there`: batches that compaction may have taken from the other side.
    """

    first: int
    end: int
    batches: int = 0
    size: int = 0
    only_here: int = 0
    only_there: int = 0
    differences: int = 0
    described: list[str] = field(default_factory=list)

    def differ(self, words: str) -> None:
        self.differences += 1
        if len(self.described) < MOST_DESCRIBED:
            self.described.append(words)


def compare(
    here: Admin, source: Admin, places: Mapping[Place, Place], compacted: Iterable[str], samples: int | None
) -> Iterator[tuple[Place, Comparison]]:
    """Compares partitions, by their places here and at the source.

    `compacted`: topics of which either side may lack batches. `samples`: how many ranges of a partition, of 1 MB each, are
    compared; None for everything. Raises RequestFailed.
    """
    lacking = frozenset(compacted)
    bounds_here = _bounds(here, list(places))
    bounds_there = _bounds(source, list(places.values()))
    for place, there in places.items():
        first = max(bounds_here[place][0], bounds_there[there][0])
        end = min(bounds_here[place][1], bounds_there[there][1])
        comparison = Comparison(first, end)
        is_compacted = place[0] in lacking
        readers = (
            BatchHeaders(here, place, is_compacted=is_compacted),
            BatchHeaders(source, there, is_compacted=is_compacted),
        )
        for start, stop in _ranges(readers, first, end, samples):
            _compare_range(readers, start, stop, comparison, is_compacted=is_compacted)
        yield place, comparison


def _bounds(admin: Admin, places: list[Place]) -> dict[Place, tuple[int, int]]:
    starts = list_offsets(admin, dict.fromkeys(places, EARLIEST))
    ends = list_offsets(admin, dict.fromkeys(places, LATEST), committed=True)
    return {place: (starts[place].offset, ends[place].offset) for place in places}


def _ranges(
    readers: tuple[BatchHeaders, BatchHeaders], first: int, end: int, samples: int | None
) -> Iterator[tuple[int, int]]:
    """The ranges to compare: whole batches of the first side, of one response each."""
    if samples is None or first >= end:
        yield first, end
        return
    for _ in range(samples):
        start = random.randrange(first, end)
        batches = readers[0].read(start)
        stop = min(end, batches[-1].header.next_offset) if batches else end
        yield start, stop
        if start == first and stop == end:
            return


def _compare_range(
    readers: tuple[BatchHeaders, BatchHeaders], start: int, end: int, comparison: Comparison, *, is_compacted: bool
) -> None:
    sides = [reader.between(start, end) for reader in readers]
    ours, theirs = next(sides[0], None), next(sides[1], None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours.header.base_offset < theirs.header.base_offset):
            assert ours is not None
            comparison.only_here += 1
            if not is_compacted:
                comparison.differ(f"the batch at offset {ours.header.base_offset} is only here")
            ours = next(sides[0], None)
        elif ours is None or theirs.header.base_offset < ours.header.base_offset:
            comparison.only_there += 1
            if not is_compacted:
                comparison.differ(f"the batch at offset {theirs.header.base_offset} is only at the source")
            theirs = next(sides[1], None)
        else:
            _compare_batches(ours, theirs, comparison, is_compacted=is_compacted)
            ours, theirs = next(sides[0], None), next(sides[1], None)


def _compare_batches(ours: CheckedBatch, theirs: CheckedBatch, comparison: Comparison, *, is_compacted: bool) -> None:
    here, there = ours.header, theirs.header
    comparison.batches += 1
    comparison.size += here.size
    for damage, place in ((ours.damage, "here"), (theirs.damage, "at the source")):
        if damage:
            comparison.differ(f"the batch at offset {here.base_offset} is damaged {place}: {damage}")
    if Batch.of(here).is_same(Batch.of(there), is_compacted=is_compacted):
        return
    comparison.differ(
        f"the batch at offset {here.base_offset} has CRC {here.crc:#010x} and {here.size} bytes here, at the source "
        f"{there.crc:#010x} and {there.size}"
    )
