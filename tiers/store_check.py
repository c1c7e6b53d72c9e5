"""The check of a store against the metadata: objects that no event names, and parts that are missing or of the wrong size.

Pure: the caller lists the store and hands in ready caches. A crash leaves no orphan that a leader does not collect. A
deposed leader that crashes in its last upload may leave one, and so may a metadata topic that was deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from .cache import RemoteLogMetadataCache
from .checksums import decode_checksums
from .segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata, TopicIdPartition
from .store import PartType, StoredObject

_REQUIRED = frozenset(PartType) - {PartType.TRANSACTION_INDEX}


class WrongPart(NamedTuple):
    """A part of a copied segment. `found` and `expected` are sizes in bytes; None: it is missing, its size is not known."""

    segment: RemoteLogSegmentMetadata
    part: PartType
    found: int | None
    expected: int | None


class StoreReport(NamedTuple):
    """`orphans` are objects of checked partitions and no segment; they may be deleted. `unchecked` counts objects of other
    partitions: they may be of another cluster.
    """

    orphans: list[StoredObject]
    wrong_parts: list[WrongPart]
    checked: int
    unchecked: int


def check_store(
    objects: Iterable[StoredObject],
    caches: Mapping[TopicIdPartition, RemoteLogMetadataCache],
    copied_before: Collection[bytes],
) -> StoreReport:
    """Compares the objects of a store with the caches of partitions that are ready and not doubtful.

    `copied_before` are the ids of the segments that were copied before the store was listed (`copied_segments`); the caches
    are those after it. So a copy or a deletion in between is no error: its objects are named, or are gone anyway.
    """
    sizes: dict[bytes, dict[PartType, int]] = {}
    orphans, checked, unchecked = [], 0, 0
    for one in objects:
        cache = caches.get(one.partition)
        if cache is None:
            unchecked += 1
            continue
        checked += 1
        segment = cache.segment(one.segment_id)
        if segment is None or segment.start_offset != one.start_offset:
            orphans.append(one)
        else:
            sizes.setdefault(one.segment_id, {})[one.part] = one.size
    copied = [one for one in copied_segments(caches.values()) if one.segment_id in copied_before]
    wrong = [found for segment in copied for found in _wrong_parts(segment, sizes.get(segment.segment_id, {}))]
    return StoreReport(orphans, wrong, checked, unchecked)


def copied_segments(caches: Iterable[RemoteLogMetadataCache]) -> list[RemoteLogSegmentMetadata]:
    return [one for cache in caches for one in cache.segments() if one.state is COPY_SEGMENT_FINISHED]


def _wrong_parts(segment: RemoteLogSegmentMetadata, sizes: Mapping[PartType, int]) -> list[WrongPart]:
    checksums = decode_checksums(segment.custom_metadata)
    expected: dict[PartType, int | None] = dict.fromkeys(_REQUIRED)
    expected[PartType.LOG] = segment.size_bytes
    if checksums is not None:
        expected |= {part: size for part, (size, _) in checksums.of.items()}
    return [
        WrongPart(segment, part, sizes.get(part), size)
        for part, size in sorted(expected.items(), key=lambda one: one[0].value)
        if part not in sizes or (size is not None and sizes[part] != size)
    ]
