"""Segments that a log has removed, and whose files are still there: renamed to `.deleted`, and unlinked after a delay.

To unlink a segment of a gigabyte takes the file system 100 ms and more, so a thread does both. A crash before a
rename brings the segment back, whole and in its place: the oldest go first, and the data file of each before its
indexes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..files.segment_files import DELETED_SUFFIX
from ..files.writes import unlink_if_exists

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory
    from ..segments.segment import Segment


class Removals:
    """The removed segments of one log. Any thread may call its methods; they raise OSError."""

    __slots__ = ("_directory", "_lock", "_named", "_renamed", "_snapshots")

    def __init__(self, directory: PartitionDirectory) -> None:
        self._directory = directory
        #: Held while names change. Files are unlinked without it, since no new file gets their names.
        self._lock = threading.Lock()
        #: When their files may go, and the segments: with their old names, and renamed.
        self._named: list[tuple[int, Segment]] = []
        self._renamed: list[tuple[int, Segment]] = []
        #: Snapshots of producers that are of no segment any more.
        self._snapshots: list[str] = []

    def __len__(self) -> int:
        return len(self._named) + len(self._renamed)

    @property
    def keeps_names(self) -> bool:
        """Returns whether files have names yet that a new segment could be given."""
        return bool(self._named or self._snapshots)

    def add(self, due_ms: int, segments: Sequence[Segment], snapshots: Iterable[str]) -> None:
        with self._lock:
            self._named += [(due_ms, segment) for segment in segments]
            self._snapshots += snapshots

    def free_names(self) -> None:
        """Renames what has its old name, before a new file may get it."""
        with self._lock:
            while self._named:
                due_ms, segment = self._named[0]
                segment.change_suffix(DELETED_SUFFIX)
                self._renamed.append((due_ms, segment))
                del self._named[0]
            while self._snapshots:
                unlink_if_exists(self._snapshots[0])
                del self._snapshots[0]

    def delete(self, now_ms: int) -> int:
        """Unlinks the files whose time has come. Returns how many segments still wait."""
        self.free_names()
        with self._lock:
            due = [segment for due_ms, segment in self._renamed if due_ms <= now_ms]
            self._renamed = [one for one in self._renamed if one[0] > now_ms]
        for segment in due:
            path = None
            while path != self._directory.path:  # a thread may be overtaken by a rename of the directory
                path = self._directory.path
                segment.unlink()
        return len(self)
