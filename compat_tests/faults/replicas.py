"""The files of the replicas: whether all hold the same bytes, and the producer epoch of each record. Replicas may roll
segments at different offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

from odradek.protocol.records.batch import iter_headers

#: (partition, offset) -> (producer id, producer epoch).
Writers = dict[tuple[int, int], tuple[int, int]]


def log_bytes(partition: Path) -> bytes:
    """Returns all bytes of a replica, one segment after the other."""
    return b"".join(segment.read_bytes() for segment in sorted(partition.glob("*.log")))


def differing(log_dirs: Iterable[Path], topic: str, partitions: int) -> Iterator[str]:
    """Yields a sentence for each pair of replicas that are not equal."""
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


def writers(log_dir: Path, topic: str, partitions: int) -> Writers:
    """Returns the producer epochs of all records in one replica of each partition."""
    found: Writers = {}
    for index in range(partitions):
        for _, header in iter_headers(log_bytes(log_dir / f"{topic}-{index}")):
            for offset in range(header.base_offset, header.next_offset):
                found[index, offset] = (header.producer_id, header.producer_epoch)
    return found
