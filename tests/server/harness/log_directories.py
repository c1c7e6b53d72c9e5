"""Log directories of a node that is formatted."""

from __future__ import annotations

from pathlib import Path

from odradek.storage.directory import LogDirectory
from odradek.storage.files.meta_properties import MetaProperties, write_meta_properties

NODE = 0


def directory_id_of(number: int) -> bytes:
    return bytes([number]) * 16


def formatted_directory(path: Path, directory_id: bytes, *, node_id: int = NODE) -> LogDirectory:
    """Opens a directory in that folder, which need not exist. The test closes it."""
    path.mkdir(exist_ok=True)
    write_meta_properties(str(path), MetaProperties("cluster", node_id, directory_id))
    return LogDirectory.open(str(path))


def formatted_directories(path: Path, count: int) -> list[LogDirectory]:
    """Opens directories in the folders "0", "1" and so on, with the ids of 1, 2 and so on."""
    return [formatted_directory(path / str(number), directory_id_of(number + 1)) for number in range(count)]
