"""A flush of a range of a log to the disk, from any thread."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..files import write_checks
from ..files.failures import LogDirectoryFailure
from ..files.writes import sync_directory, sync_if_exists

if TYPE_CHECKING:
    from ..files.open_files import OpenFile
    from ..files.partition_directory import PartitionDirectory
    from .epochs import EpochsContent


class PendingFlush:
    """The files to sync, held open. Indexes of the active segment are left out: a crash has them rebuilt."""

    __slots__ = ("_directory", "_epochs", "_files", "generation", "up_to_offset")

    def __init__(
        self,
        directory: PartitionDirectory,
        up_to_offset: int,
        files: list[tuple[OpenFile, tuple[str, ...] | None]],
        epochs: EpochsContent | None,
        generation: int = 0,
    ) -> None:
        self._directory = directory
        self._files = files
        self._epochs = epochs
        self.up_to_offset = up_to_offset
        #: The log's, of which these are the records.
        self.generation = generation

    def run(self) -> None:
        """Raises LogDirectoryFailure."""
        try:
            if write_checks.active:
                write_checks.run(self._directory.path, write_checks.FLUSH)
            for file, index_paths in self._files:
                os.fdatasync(file.fd)
                for path in index_paths or ():
                    sync_if_exists(path)  # compaction or retention may have taken the segment meanwhile
            if self._epochs is None:
                sync_directory(self._directory.path)
            else:
                self._epochs.write(self._directory.path)
            self._directory.sync_name()
        except OSError as error:
            raise LogDirectoryFailure(
                self._directory.log_directory, f"flushing {self._directory.path}", error
            ) from error
