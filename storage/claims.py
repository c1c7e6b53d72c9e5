"""The offsets that the checkpoints of a log directory claim for the ends of its logs, as the disk has them.

A start compares the end of each log with what other files know of it: a log that ends earlier is damaged
(log/loading.py). So a claim must not outlive the history that it belongs to. A truncation lowers every claim first,
on the disk, and only then is the log cut; a new replica of a name drops those of the former one.

- `replication-offset-checkpoint`, `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`: `lower` writes them
  once for all truncations of a moment, and no later write raises them until the logs are cut. A replica that is removed,
  or leaves the directory, drops its own.
- Producer snapshots, `leader-epoch-checkpoint`, `odradek-damage`: `FileClaims` (log/claims.py) removes them, or writes
  them again, before the log is cut.
- `.index`, `.timeindex`, `.txnindex` are cut with their segment. A start after a crash builds them again from the recovery
  point on, which is no higher than the cut.
- `odradek-clean-replicas`: a note counts while the folder and the segments have their times. A truncation changes that of
  the folder first.
- `cleaner-offset-checkpoint` is lowered with the others (server/replicas/truncations.py). The generation of the log ends a
  compaction that is running.
- A flush that is running belongs to a generation of the log, and does not raise the recovery point of the next one.
- The future log of a move is cut at the first record that differs (server/replicas/moves.py). The checkpoints of its
  directory have no entry for it before it is the current log.
- `odradek-metadata-end`: `FlushedEnd.truncating` (server/controller/flushed_end.py) lowers it before the log is cut.
- Segments in a remote store have the leader epochs of their records (KIP-405), which those of the log must match.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .files.checkpoints import TopicPartition, write_offsets

#: The limit of a replica that is gone: no entry at all.
GONE = -1


class CheckpointClaims:
    """The checkpoints of one log directory. The loop's thread calls all methods but `write` and `lower`.

    `on_disk`: by the name of a checkpoint, its offsets on the disk.
    """

    __slots__ = ("_being_written", "_limits", "_lock", "_on_disk", "_path", "_written", "age")

    def __init__(self, path: str, on_disk: Mapping[str, dict[TopicPartition, int]]) -> None:
        self._path = path
        #: Held while a checkpoint is written.
        self._lock = threading.Lock()
        self._on_disk = dict(on_disk)
        #: Contents that the disk may have got meanwhile.
        self._being_written: dict[str, dict[TopicPartition, int]] = {}
        #: Checkpoints that were written since the directory was opened: the others may lack their checksums.
        self._written: set[str] = set()
        #: The offsets above which nothing may be claimed of logs that are about to be cut, or GONE.
        self._limits: dict[TopicPartition, int] = {}
        #: Changes with each limit: offsets that were collected before it are not written.
        self.age = 0

    # ---- limits

    def reaches(self, key: TopicPartition, offset: int) -> bool:
        """Returns whether a checkpoint may have more than `offset` for a log."""
        # A write begins with `_being_written`, and ends with `_on_disk`.
        for offsets in (*self._being_written.values(), *self._on_disk.values()):  # noqa: SIM110  (each creation of a log)
            if offsets.get(key, GONE) > offset:
                return True
        return False

    def limit(self, key: TopicPartition, offset: int) -> None:
        """Has no checkpoint claim more than `offset` from the next `lower` on, until `release`."""
        self._limits[key] = min(offset, self._limits.get(key, offset))
        self.age += 1

    def release(self, key: TopicPartition) -> None:
        """Ends a limit: the log is cut, or is not to be cut."""
        self._limits.pop(key, None)

    def begin(self, key: TopicPartition) -> None:
        """Prepares for a new log: waits for the disk where a former one of its name has left claims. Raises
        LogDirectoryFailure.
        """
        if self.reaches(key, 0):
            self.limit(key, GONE)
            self.lower()
        if key in self._limits:
            self.release(key)

    def has_gone(self) -> bool:
        """Returns whether the disk has claims of replicas that are gone. Forgets the others."""
        gone = [key for key, limit in self._limits.items() if limit == GONE]
        for key in gone:
            if not self.reaches(key, GONE):
                del self._limits[key]
        return GONE in self._limits.values()

    # ---- the files

    def bounded(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the offsets of a checkpoint as they may be written now."""
        lowered = _lowered(offsets, self._limits)
        return offsets if lowered is None else lowered

    def write(self, name: str, offsets: dict[TopicPartition, int], age: int | None = None) -> None:
        """Replaces a checkpoint, and waits for the disk. Any thread may call it. Raises LogDirectoryFailure.

        `age`: that of the time when the offsets were collected. Nothing is written if there is a new limit since then, or
        if the disk has these offsets.
        """
        with self._lock:
            # Before the look at the age: `limit` comes before `reaches`.
            self._being_written[name] = offsets
            is_same = name in self._written and self._on_disk.get(name) == offsets
            if age is None or (age == self.age and not is_same):
                self._write(name, offsets)
            else:
                del self._being_written[name]

    def lower(self) -> None:
        """Writes every checkpoint that has more than a limit, and waits for the disk. Any thread may call it. Raises
        LogDirectoryFailure.
        """
        with self._lock:
            limits = dict(self._limits)
            for name, offsets in list(self._on_disk.items()):
                lowered = _lowered(offsets, limits)
                if lowered is not None:
                    self._write(name, lowered)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self._being_written[name] = offsets
        write_offsets(self._path, name, offsets)
        self._on_disk[name] = offsets
        self._written.add(name)
        del self._being_written[name]


def _lowered(
    offsets: dict[TopicPartition, int], limits: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int] | None:
    """Returns the offsets within the limits; None where they are already."""
    above = {key: limit for key, limit in limits.items() if offsets.get(key, GONE) > limit}
    if not above:
        return None
    lowered = offsets | above
    for key, limit in above.items():
        if limit == GONE:
            del lowered[key]
    return lowered
