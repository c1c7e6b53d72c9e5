"""Opening a broker's log directories: those that fail are left out while another is there."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...storage.directory import LogDirectory
from ...storage.files import LogDirectoryFailure

log = logging.getLogger("odradek.broker")


def open_directories(paths: Iterable[str]) -> list[LogDirectory]:
    """The directories that can be opened, as in Kafka. Raises LogDirectoryFailure when none can."""
    found: list[LogDirectory] = []
    failures: list[LogDirectoryFailure] = []
    for path in paths:
        try:
            found.append(LogDirectory.open(path))
        except LogDirectoryFailure as failure:
            log.error("log directory %s is offline: %s", path, failure)
            failures.append(failure)
        except BaseException:
            for opened in found:
                opened.close()
            raise
    if not found:
        raise failures[0]
    return found
