"""The facts of a log, opened or not: its place, its ends and its damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.failures import LogDirectoryFailure

if TYPE_CHECKING:
    from ..files.open_files import OpenFiles
    from ..files.partition_directory import PartitionDirectory
    from ..segments.damage import Damage
    from .config import LogConfig

#: The files have changed since the last note, or there is none.
UNNOTED = -1


class LogFacts:
    """`log_end_offset` is the offset of the next record; `recovery_point` the offset below which all is on the disk.

    `damage`: the parts of the log that cannot be read (segments/damage.py). `noted_end`: the end of the log when it was last
    noted (files/clean_replicas.py), or UNNOTED; or, see `is_idle`, below that.
    """

    __slots__ = (
        "_directory", "_files", "_jitter", "config", "damage", "last_flush_ms", "log_end_offset", "log_start_offset",
        "noted_end", "opening_notes", "partition", "recovered_bytes", "recovery_point", "topic",
    )  # fmt: skip

    _directory: PartitionDirectory
    _files: OpenFiles
    _jitter: float
    topic: str
    partition: int
    config: LogConfig
    damage: Damage
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    last_flush_ms: int
    noted_end: int
    #: The number of bytes that the opening cut off, and all oddities that it met.
    recovered_bytes: int
    opening_notes: tuple[str, ...]

    @property
    def directory(self) -> PartitionDirectory:
        return self._directory

    @property
    def path(self) -> str:
        return self._directory.path

    @property
    def log_directory(self) -> str:
        """The log directory that the partition's directory is in."""
        return self._directory.log_directory

    def is_idle(self) -> bool:
        """Returns whether the log is not noted, and has not grown since the last call. Called once an interval."""
        end = self.log_end_offset
        seen = UNNOTED - 1 - end
        if self.noted_end in (end, seen):
            return self.noted_end == seen
        self.noted_end = seen
        return False

    def _failed(self, doing: str, error: OSError) -> LogDirectoryFailure:
        return LogDirectoryFailure(self.log_directory, f"{doing} {self.path}", error)
