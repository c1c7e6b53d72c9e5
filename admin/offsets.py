"""Offsets of partitions: the end of each less its start.

They are not records. Compaction and DeleteRecords leave offsets without a record, and each marker of a transaction takes
one. `odradek.scan` counts records, by the headers of their batches.
"""

from __future__ import annotations

from collections.abc import Mapping

from .places import Place


def offsets_of(starts: Mapping[Place, int], ends: Mapping[Place, int]) -> dict[Place, int]:
    """The number of offsets of each partition whose start and end are known."""
    return {place: max(0, end - starts[place]) for place, end in ends.items() if place in starts}
