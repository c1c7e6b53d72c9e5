"""Whether all replicas of a topic hold the same bytes: segments may be cut elsewhere, what is in them may not differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path


def log_bytes(partition: Path) -> bytes:
    """Everything that a replica holds, one segment after the other."""
    return b"".join(segment.read_bytes() for segment in sorted(partition.glob("*.log")))


def differing(log_dirs: Iterable[Path], topic: str, partitions: int) -> Iterator[str]:
    """A sentence for each pair of replicas that are not equal."""
    places = list(log_dirs)
    for index in range(partitions):
        held = {
            place: log_bytes(place / f"{topic}-{index}") for place in places if (place / f"{topic}-{index}").exists()
        }
        for one, other in combinations(held, 2):
            if held[one] != held[other]:
                yield (
                    f"replicas differ: {topic}-{index} has {len(held[one])} bytes in {one} and {len(held[other])} in {other}"
                )
