"""Log directories of a broker as a whole: those that fail to open are left out while another is there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ...storage.directory import LogDirectory, checkpoints_of
from ...storage.files.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    write_offsets,
)
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.log import Log

log = logging.getLogger("odradek.broker")


def open_directories(paths: Iterable[str], opened: list[LogDirectory]) -> None:
    """Appends the directories that can be opened, as in Kafka. Raises LogDirectoryFailure when none can.

    The owner of the list closes them, also when this raises.
    """
    failures: list[LogDirectoryFailure] = []
    for path in paths:
        try:
            opened.append(LogDirectory.open(path))
        except LogDirectoryFailure as failure:
            log.error("log directory %s is offline: %s", path, failure)
            failures.append(failure)
    if not opened:
        raise failures[0]


def write_checkpoints(directory: LogDirectory, logs: Sequence[Log], high_watermarks: dict[TopicPartition, int]) -> None:
    """Writes the checkpoints of all logs of a directory at a clean stop. Raises LogDirectoryFailure."""
    found = checkpoints_of(logs)
    write_offsets(directory.path, RECOVERY_POINTS, found.recovery_points)
    write_offsets(directory.path, LOG_START_OFFSETS, found.log_start_offsets)
    write_offsets(directory.path, HIGH_WATERMARKS, high_watermarks)
