"""Partitions in a data directory, as a scan sees them: segments, their ends, transactions. Nothing is written or locked.

A broker may use the directory meanwhile. It replaces whole files (compaction), removes them (retention, DeleteRecords) or
cuts them (a follower's truncation), so a name that was listed may be gone or stand for other bytes a moment later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ..protocol.records.errors import OldFormatInLog
from ..storage.files.checkpoints import LOG_START_OFFSETS, inspect_offsets
from ..storage.files.failures import LogDirectoryFailure
from ..storage.files.partition_directory import PartitionDirectory
from ..storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id
from ..storage.files.segment_files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, base_offset_of
from ..storage.log.epochs import LeaderEpochs
from ..tiers.segment_metadata import METADATA_TOPIC
from . import layout
from .errors import InvalidScan
from .segment import Segment, first_epoch, last_epoch, walk

#: `orders-0`; not `orders-0.<id>-delete`, `-future` or `-stray`.
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
#: The directory of one partition may also be one that was kept: records that were cut off.
_KEPT = re.compile(_PARTITION.pattern + r"\.[0-9a-f]{32}-stray")
_OTHER = re.compile(r".*\.[0-9a-f]{32}-(delete|future|stray)")
#: Beginning of the names of a broker's snapshots of the metadata of tiered storage.
TIER_SNAPSHOT = "odradek-remote-log-metadata-"


def partitions_of(path: str) -> tuple[str, dict[int, list[str]]]:
    """The topic that `path` names, and the directories of its partitions; several of one partition are copies.

    `path` is DATA_DIRECTORY/TOPIC, or the directory of one partition. Raises InvalidScan.
    """
    path = os.path.abspath(path)
    parent, name = os.path.split(path)
    if os.path.isdir(path) and _has_segments(path):
        found = _KEPT.fullmatch(name) or _PARTITION.fullmatch(name)
        if found is None:
            raise InvalidScan(f"{path} is not named TOPIC-PARTITION")
        return found["topic"], {int(found["partition"]): [path]}
    partitions: dict[int, list[str]] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.scandir(parent):
            found = _PARTITION.fullmatch(entry.name)
            if found and found["topic"] == name and not _OTHER.fullmatch(entry.name) and entry.is_dir():
                partitions.setdefault(int(found["partition"]), []).append(entry.path)
    if not partitions:
        raise InvalidScan(f"{parent} has no partition of a topic {name}: name DATA_DIRECTORY/TOPIC")
    return name, dict(sorted(partitions.items()))


def topics_of(data_directory: str) -> list[str]:
    """The topics with partitions in a data directory."""
    found = set()
    for entry in os.scandir(data_directory):
        match = _PARTITION.fullmatch(entry.name)
        if match and not _OTHER.fullmatch(entry.name) and entry.is_dir():
            found.add(match["topic"])
    return sorted(found)


def has_tier_metadata(data_directory: str) -> bool:
    """Returns whether a broker with tiered storage has used the directory."""
    with suppress(OSError):
        names = os.listdir(data_directory)
        return any(name.startswith((f"{METADATA_TOPIC}-", TIER_SNAPSHOT)) for name in names)
    return False


def _has_segments(path: str) -> bool:
    return any(name.endswith(LOG_SUFFIX) and base_offset_of(name) is not None for name in os.listdir(path))


def segments_of(path: str) -> list[Segment]:
    """The segments of a partition's directory, in order. Raises FileNotFoundError.

    Where a compaction was interrupted between two renames, the file that it has completed (`.swap`) stands for the segment.
    """
    names = os.listdir(path)
    bases = _bases(names, LOG_SUFFIX)
    swapped = _bases(names, LOG_SUFFIX + SWAP_SUFFIX) - bases
    if swapped:
        unfinished = min(_bases(names, LOG_SUFFIX + CLEANED_SUFFIX), default=1 << 63)
        swapped = {base for base in swapped if base < unfinished}
    found: list[tuple[int, str, int]] = []
    for base in sorted(bases | swapped):
        file = f"{path}/{base:020d}{LOG_SUFFIX}{SWAP_SUFFIX if base in swapped else ''}"
        with suppress(FileNotFoundError):  # removed since the listing
            found.append((base, file, os.stat(file).st_size))
    following = [*(base for base, _, _ in found[1:]), None]
    return [Segment(file, base, size, after) for (base, file, size), after in zip(found, following)]


def _bases(names: Sequence[str], suffix: str) -> set[int]:
    return {base for name in names if name.endswith(suffix) and (base := base_offset_of(name)) is not None
            and len(name) == 20 + len(suffix)}  # fmt: skip


def log_start_offset(path: str, segments: Sequence[Segment]) -> int:
    """The first offset that readers may have: of the first segment, or where DeleteRecords has set it."""
    first = segments[0].base_offset if segments else 0
    return max(first, recorded_start(path) or 0)


def recorded_start(path: str) -> int | None:
    """The log start offset that a broker has written, up to a minute ago."""
    directory, name = os.path.split(path)
    topic, _, partition = name.rpartition("-")
    if _KEPT.fullmatch(name):
        return None
    with suppress(LogDirectoryFailure):
        return inspect_offsets(directory, LOG_START_OFFSETS).offsets.get((topic, int(partition)))
    return None


def topic_id_of(path: str) -> bytes | None:
    with suppress(OSError, CorruptPartitionMetadata):
        return read_topic_id(path)
    return None


def leader_epochs(path: str, segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """The leader epochs of a log, each with its start offset: those of the file, and of the batches since it was written.

    A broker writes the file when it flushes the log: of a running or killed one, only batches may have the last epochs.
    """
    epochs = LeaderEpochs.load(PartitionDirectory(path))
    following = [first_epoch(one) for one in segments[1:]]
    for segment, next_epoch in zip(segments, [*following, None]):
        with suppress(FileNotFoundError, OldFormatInLog):
            if (next_epoch if next_epoch is not None else last_epoch(segment)) > epochs.latest:
                for rows in walk(segment):
                    found, places = np.unique(rows[:, layout.LEADER_EPOCH], return_index=True)
                    for epoch, place in zip(found, places, strict=True):
                        if epoch > epochs.latest:
                            epochs.assign(int(epoch), int(rows[place][layout.BASE_OFFSET]))
    return epochs.entries()
