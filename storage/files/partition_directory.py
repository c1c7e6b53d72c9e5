"""The directory of a partition's files."""

from __future__ import annotations

import os


class PartitionDirectory:
    """The path of a partition's files. All parts of a log share the object, because a directory may be renamed."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def log_directory(self) -> str:
        return os.path.dirname(self.path)

    def file(self, base_offset: int, suffix: str) -> str:
        return f"{self.path}/{base_offset:020d}{suffix}"
