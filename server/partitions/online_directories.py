"""The log directories of a broker as a whole. Those that fail to open are left out while another is there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...storage.directory import LogDirectory, checkpoints_of
from ...storage.files.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from ...storage.files.failures import LogDirectoryFailure

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ...storage.log.log import Log
    from ...storage.log.unopened import UnopenedLog

directories_log = logging.getLogger("odradek.broker")


def open_directories(paths: Iterable[str], opened: list[LogDirectory]) -> None:
    """Appends the directories that can be opened, as in Kafka. Raises LogDirectoryFailure when none can.

    The owner of the list closes them, also when this raises.
    """
    failures: list[LogDirectoryFailure] = []
    for path in paths:
        try:
            opened.append(LogDirectory.open(path))
        except LogDirectoryFailure as failure:
            directories_log.error("log directory %s is offline: %s", path, failure)
            failures.append(failure)
    if not opened:
        raise failures[0]


def write_checkpoints(
    directory: LogDirectory, logs: Sequence[Log | UnopenedLog], high_watermarks: dict[TopicPartition, int]
) -> None:
    """Writes the checkpoints of all logs of a directory at a clean stop. Raises LogDirectoryFailure."""
    found = checkpoints_of(logs)
    directory.claims.write(RECOVERY_POINTS, found.recovery_points)
    directory.claims.write(LOG_START_OFFSETS, found.log_start_offsets)
    directory.claims.write(HIGH_WATERMARKS, high_watermarks)
