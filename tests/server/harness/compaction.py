"""Jobs for the compaction process, with which a test observes that process."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from odradek.storage.files.failures import LogDirectoryFailure


class EndlessJob:
    """Writes the process id and niceness into a file, and works until it is aborted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, is_aborted: Callable[[], bool]) -> None:
        written = self.path.with_suffix(".new")
        written.write_text(f"{os.getpid()} {os.nice(0)}")
        written.rename(self.path)
        while not is_aborted():
            time.sleep(0.005)
        raise SystemExit(2)


class JobOnFullDisk:
    """A job that fails because the disk is full."""

    def run(self, is_aborted: Callable[[], bool]) -> None:
        raise LogDirectoryFailure("/logs", "compacting", OSError(errno.ENOSPC, "No space left on device"))


class LargeJob:
    """A job of some size, whose result is as large."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def run(self, is_aborted: Callable[[], bool]) -> bytes:
        return self.data[::-1]
