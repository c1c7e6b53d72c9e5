"""The directory of a partition's files."""

from __future__ import annotations

import os

from .writes import sync_directory


class PartitionDirectory:
    """The path of a partition's files. All parts of a log share the object, because a directory may be renamed."""

    __slots__ = ("has_durable_name", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        #: Whether this process has synced the log directory since the directory was made or renamed. Without that, a power
        #: loss takes the whole directory, with all its synced files.
        self.has_durable_name = False

    def rename(self, path: str) -> None:
        os.rename(self.path, path)
        self.path, self.has_durable_name = path, False

    def sync_name(self) -> None:
        """Makes the directory's own name survive a power loss. Raises OSError."""
        if not self.has_durable_name:
            path = self.path
            sync_directory(self.log_directory)
            self.has_durable_name = path == self.path  # else a rename came meanwhile

    @property
    def log_directory(self) -> str:
        return os.path.dirname(self.path)

    def file(self, base_offset: int, suffix: str) -> str:
        return f"{self.path}/{base_offset:020d}{suffix}"
