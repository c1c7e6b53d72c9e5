"""A log whose files match its note is opened from the note alone (files/clean_replicas.py)."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from ..files.segment_files import LOG_SUFFIX
from ..segments.segment import Segment
from .epochs import LeaderEpochs
from .loading import LoadedLog, LogLoader
from .replay import restore_producers

if TYPE_CHECKING:
    from ..files.clean_replicas import CleanLog
    from ..files.open_files import OpenFiles
    from ..files.partition_directory import PartitionDirectory
    from .config import LogConfig


def is_as_noted(path: str, noted: CleanLog) -> bool:
    """Returns whether the data files have the sizes and times of the note. Raises OSError."""
    for base, size, modified_ns in noted.segments:
        try:
            found = os.stat(f"{path}/{base:020d}{LOG_SUFFIX}")
        except FileNotFoundError:
            return False
        if found.st_size != size or found.st_mtime_ns != modified_ns:
            return False
    return True


def load_noted(
    directory: PartitionDirectory,
    config: LogConfig,
    files: OpenFiles,
    now_ms: int,
    noted: CleanLog,
    log_start_offset: int,
    recovery_point: int,
) -> LoadedLog:
    """Makes the parts of a log whose files match its note."""
    loader = LogLoader(directory, config, files, now_ms)
    for base, size, _ in noted.segments:
        segment = Segment(directory, files, base, now_ms)
        segment.size = size
        loader.segments.append(segment)
    for segment, following in pairwise(loader.segments):
        segment.next_offset = following.base_offset
    last, end = loader.segments[-1], noted.end_offset
    last.next_offset = end
    if last.base_offset <= noted.offset_of_max_timestamp < max(end, last.base_offset + 1):
        last.max_timestamp, last.offset_of_max_timestamp = noted.max_timestamp, noted.offset_of_max_timestamp
    epochs = LeaderEpochs(directory, noted.epochs, are_written=noted.are_epochs_written)
    epochs.truncate_from_start(log_start_offset)
    loader.snapshots = list(noted.snapshots)
    if noted.has_producers:
        loader.snapshots = restore_producers(loader, end)
    else:
        loader.producers.end_offset = end
    return LoadedLog(
        loader.segments, log_start_offset, end, recovery_point, epochs, loader.producers, loader.snapshots, 0,
        loader.damage, (), is_noted=True,
    )  # fmt: skip
