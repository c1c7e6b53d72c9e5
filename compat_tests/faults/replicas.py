"""The files of the replicas: whether all hold the same bytes, and the producer epoch of each record. Replicas may roll
segments at different offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from odradek.protocol.records.batch import iter_headers

#: Each controller has its own snapshots of the metadata log.
_METADATA = "__cluster_metadata-"
#: (partition, offset) -> (producer id, producer epoch).
Writers = dict[tuple[int, int], tuple[int, int]]


def log_bytes(partition: Path) -> bytes:
    """Returns all bytes of a replica, one segment after the other."""
    return b"".join(segment.read_bytes() for segment in sorted(partition.glob("*.log")))


def log_start_offset(partition: Path) -> int:
    """Returns the offset below which records are deleted; 0 unless the log directory has another one."""
    checkpoint = partition.parent / "log-start-offset-checkpoint"
    wanted = partition.name.rsplit("-", 1)
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return next((int(offset) for *place, offset in map(str.split, lines) if place == wanted), 0)


def bytes_from(partition: Path, start_offset: int) -> bytes:
    """Returns the bytes of a replica from the first batch that ends at or after `start_offset`."""
    held = log_bytes(partition)
    ends = (at for at, header in iter_headers(held) if header.next_offset > start_offset)
    return held[next(ends, len(held)) :] if start_offset else held


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


class Comparison(NamedTuple):
    """The result for all topics of a cluster. `differing` has a sentence for each partition whose replicas are not equal."""

    partitions: int
    topics: int
    bytes: int
    differing: list[str]

    def __str__(self) -> str:
        return f"{self.partitions} partitions of {self.topics} topics, {self.bytes} bytes"


def compare_all(log_dirs: Iterable[Path], replicas: int) -> Comparison:
    """Compares the replicas of every partition, also those of internal topics. Each partition must have `replicas`.

    Deleted records do not count: a replica that joins later does not get them.
    """
    places: dict[str, list[Path]] = defaultdict(list)
    for log_dir in log_dirs:
        for place in log_dir.iterdir():
            # A suffix marks a replica that moves or is deleted.
            if place.is_dir() and "-" in place.name and "." not in place.name and not place.name.startswith(_METADATA):
                places[place.name].append(place)
    reported, size = [], 0
    for name, held in sorted(places.items()):
        sizes = [sum(segment.stat().st_size for segment in place.glob("*.log")) for place in held]
        start_offset = min(map(log_start_offset, held))
        first = bytes_from(held[0], start_offset)
        size += len(first)
        if len(held) != replicas or any(bytes_from(place, start_offset) != first for place in held[1:]):
            reported.append(f"replicas differ: {name} has {sizes} bytes in {[str(place.parent) for place in held]}")
    topics = {name.rpartition("-")[0] for name in places}
    return Comparison(len(places), len(topics), size, reported)


def writers(log_dir: Path, topic: str, partitions: int) -> Writers:
    """Returns the producer epochs of all records in one replica of each partition."""
    found: Writers = {}
    for index in range(partitions):
        for _, header in iter_headers(log_bytes(log_dir / f"{topic}-{index}")):
            for offset in range(header.base_offset, header.next_offset):
                found[index, offset] = (header.producer_id, header.producer_epoch)
    return found
