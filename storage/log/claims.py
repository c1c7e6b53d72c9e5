"""The claims of a log's own files about its end, which are lowered before the log is cut.

- producer snapshots: their names are offsets that the log has reached;
- `leader-epoch-checkpoint`: an epoch has begun at its start offset;
- `odradek-damage`: these offsets cannot be read;
- notes of the replica (files/clean_replicas.py), which count while its folder has the same time.

`FileClaims` is taken on the loop (`LogSegments.prepare_truncation`), and `lower` runs on any thread. The claims of other
files are listed in storage/claims.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..files.failures import LogDirectoryFailure
from ..files.partition_directory import PartitionDirectory
from ..files.writes import sync_directory, unlink_if_exists
from ..segments.damage import Damage
from .epochs import EpochsContent


class FileClaims:
    """The claims of one log above `end_offset`. `snapshots`: paths of files."""

    __slots__ = ("_damage", "_directory", "_end_offset", "_epochs", "_snapshots")

    def __init__(
        self,
        directory: PartitionDirectory,
        end_offset: int,
        snapshots: Sequence[str],
        epochs: EpochsContent | None,
        damage: Damage | None,
    ) -> None:
        self._directory = directory
        self._end_offset = end_offset
        self._snapshots = snapshots
        self._epochs = epochs
        self._damage = damage

    def lower(self, *, sync: bool = True) -> None:
        """Lowers them. Without `sync` the caller syncs the file system. Raises LogDirectoryFailure."""
        path = self._directory.path
        try:
            if self._damage is not None:
                self._damage.save(self._end_offset)
            for snapshot in self._snapshots:
                unlink_if_exists(snapshot)
            if self._epochs is not None:
                self._epochs.write(path, sync=sync)
            elif sync:
                sync_directory(path)
        except OSError as error:
            raise LogDirectoryFailure(self._directory.log_directory, f"truncating {path}", error) from error


def outdate_notes(path: str) -> None:
    """Gives a replica's folder another time, so that no note of it counts any more. Raises OSError."""
    os.utime(path)
