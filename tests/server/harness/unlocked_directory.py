"""A log directory without a lock, as a start found it."""

from __future__ import annotations

from pathlib import Path

from odradek.storage.directory import LogDirectory
from odradek.storage.files.meta_properties import MetaProperties


def unlocked_directory(
    path: Path,
    directory_id: bytes | None = None,
    *,
    node_id: int = 0,
    previous_broker_epoch: int = -1,
    interrupted_broker_epoch: int | None = None,
    had_clean_shutdown: bool = False,
    is_online: bool = True,
) -> LogDirectory:
    """Returns the directory of that folder, which need not exist. `directory_id`: without one it is not formatted."""
    directory = LogDirectory(path)
    if directory_id is not None:
        directory.meta_properties = MetaProperties("cluster", node_id, directory_id)
    directory.previous_broker_epoch = previous_broker_epoch
    directory.interrupted_broker_epoch = interrupted_broker_epoch
    directory.had_clean_shutdown = had_clean_shutdown
    directory.is_online = is_online
    return directory
