"""The start offset of each leader epoch: `leader-epoch-checkpoint` (KIP-101, KIP-320).

Followers and consumers find with it where a log diverges from another. The entries are kept in memory; the file is
written by `write` when a flush or the end of a segment makes that many records safe. Entries that a crash loses are in
the headers of the batches behind the recovery point, and are read from them again. An epoch that has written nothing yet
is no reason to write: loading drops entries that start at the log's end, and so ten thousand partitions that were led and
not written to are closed without touching the disk.

```
0                  version
2                  entries
0 0                epoch, start offset
5 1234
```
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from ..files.partition_directory import PartitionDirectory
from ..files.writes import read_if_exists, sync_directory, sync_if_exists, unlink_if_exists, write_beside

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
#: No entry is missing in the file.
_NOTHING = 1 << 63
_EMPTY = b"0\n0\n"
#: Held while a file gets its name: two threads may have contents of the same one. No thread waits for a disk with it.
_renaming = threading.Lock()


def _decode(content: bytes) -> list[tuple[int, int]]:
    """Raises ValueError, IndexError."""
    version, count, *lines = content.decode("ascii").splitlines()
    if int(version) != 0 or int(count) != len(lines):
        raise ValueError(f"{len(lines)} entries, but its header has the count {count}")
    return [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines)]


def epoch_of(entries: Sequence[tuple[int, int]], offset: int) -> int:
    """Returns the epoch that wrote the record at `offset`, or UNDEFINED_EPOCH. `entries` as in the file."""
    number = bisect_right(entries, offset, key=itemgetter(1)) - 1
    return entries[number][0] if number >= 0 else UNDEFINED_EPOCH


class EpochsContent(NamedTuple):
    """A content of the file, for a thread to write. `number`: that of the contents of the file so far."""

    epochs: LeaderEpochs
    number: int
    content: bytes

    def write(self, path: str, *, sync: bool = True) -> None:
        """Replaces the file in the partition's directory, unless a newer content did. Each content has a file of its own
        until then, so that the loop and a thread may write at the same time. Raises OSError.
        """
        target = f"{path}/{FILE_NAME}"
        temporary = f"{target}.{self.number}.tmp"
        write_beside(temporary, self.content, sync=sync)
        with _renaming:
            is_newest = self.number > self.epochs.written
            if is_newest:
                os.replace(temporary, target)
                self.epochs.written = self.number
        if not is_newest:
            unlink_if_exists(temporary)
            if sync:
                sync_if_exists(target)
        if sync:
            sync_directory(path)


class LeaderEpochs:
    """(epoch, start offset) pairs, both ascending."""

    __slots__ = (
        "_directory", "_epochs", "_file_start", "_starts", "_unsynced_from", "_unwritten_from", "contents", "is_doubtful",
        "is_missing", "latest", "written",
    )  # fmt: skip

    def __init__(
        self, directory: PartitionDirectory, entries: Sequence[tuple[int, int]] = (), *, are_written: bool = True
    ) -> None:
        """`entries`: those that the file has, if they `are_written`."""
        self._directory = directory
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        # The file is as it should be for a log that ends here or before: the file, and the disk.
        self._unwritten_from = self._unsynced_from = _NOTHING if are_written else -1
        # The start of the last entry that the file may have: -1 without any.
        self._file_start = (self._starts[-1] if self._starts else -1) if are_written else _NOTHING
        #: The number of contents that were made for the file.
        self.contents = 0
        #: The number of the newest of them that the file has.
        self.written = 0
        #: The file was not there, or could not be read, when it was loaded.
        self.is_missing = self.is_doubtful = False
        #: The last epoch, or UNDEFINED_EPOCH.
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @classmethod
    def load(cls, directory: PartitionDirectory, *, is_missing: bool = False) -> LeaderEpochs:
        """Reads the file, unless it `is_missing`. An unreadable file counts as none: the batches have their epochs."""
        epochs = cls(directory)
        content = None if is_missing else read_if_exists(f"{directory.path}/{FILE_NAME}")
        try:
            pairs = _decode(content) if content else []
            for epoch, start in pairs:
                epochs.assign(epoch, start)
            is_good = content == b"" or (content is not None and len(epochs) == len(pairs) > 0) or content == _EMPTY
        except (ValueError, IndexError):
            is_good = False
        if not is_good:
            epochs.clear()
            epochs.is_doubtful, epochs.is_missing = True, content is None
        epochs._unwritten_from = epochs._unsynced_from = _NOTHING if is_good else -1
        epochs._file_start = epochs._starts[-1] if epochs._starts else -1
        return epochs

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def latest_start(self) -> int:
        """The start offset of the latest epoch; 0 where there is none."""
        return self._starts[-1] if self._starts else 0

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` wrote from `start_offset` on. Entries that contradict it go; an older epoch changes nothing."""
        if epoch <= self.latest:
            return
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed_from(start_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch known that is not above `epoch`: the response of OffsetForLeaderEpoch.

        The end of the latest epoch is the log's end. For an epoch below all known ones it is the start of the first; for
        one above all known ones nothing is known: (-1, -1).
        """
        if epoch == self.latest and epoch != UNDEFINED_EPOCH:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if epoch == UNDEFINED_EPOCH or following == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        found = self._epochs[following - 1] if following else epoch
        return found, self._starts[following]

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote the record at `offset`, or UNDEFINED_EPOCH."""
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self._changed_from(end_offset)

    def drop_above(self, epoch: int) -> bool:
        """Removes entries of epochs that no leader has had. Returns whether there were any."""
        before = len(self._epochs)
        while self._epochs and self._epochs[-1] > epoch:
            self._epochs.pop()
            self._changed_from(self._starts.pop())
        return len(self._epochs) < before

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`; the epoch that wrote there keeps its entry, from there on."""
        keep_from = bisect_right(self._starts, start_offset) - 1
        if keep_from < 0 or (keep_from == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:keep_from], self._starts[:keep_from]
        self._starts[0] = start_offset
        self._changed_from(-1)

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._changed_from(-1)

    def _changed_from(self, offset: int) -> None:
        """Notes that entries of the file from `offset` on are outdated."""
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self._unwritten_from = min(self._unwritten_from, offset)
        self._unsynced_from = min(self._unsynced_from, offset)

    def _content(self, below: int = _NOTHING) -> EpochsContent:
        """Returns the content of the file with the entries that start below an offset, which the file has from now on."""
        kept = [entry for entry in self.entries() if entry[1] < below]
        self._file_start = kept[-1][1] if kept else -1
        self.contents += 1
        content = "\n".join(("0", str(len(kept)), *(f"{epoch} {start}" for epoch, start in kept), "")).encode()
        return EpochsContent(self, self.contents, content)

    def file_reaches(self, offset: int) -> bool:
        """Returns whether the file may have an entry that starts at `offset` or after it."""
        return self._file_start >= offset

    def take_below(self, end_offset: int) -> EpochsContent:
        """Returns a content for a log that is about to be cut at `end_offset`. The entries stay until it is."""
        content = self._content(end_offset)
        if self._starts and self._starts[-1] >= end_offset:
            self._changed_from(end_offset)
        return content

    def is_synced(self, log_end_offset: int) -> bool:
        """Returns whether the disk has what a log must know that ends there."""
        return self._unsynced_from >= log_end_offset

    def take_unsynced(self, log_end_offset: int) -> EpochsContent | None:
        """Returns the content of the file, for the caller to write and sync; None if the disk has it already."""
        if self.is_synced(log_end_offset):
            return None
        self._unwritten_from = self._unsynced_from = _NOTHING
        return self._content()

    def write(self, log_end_offset: int = _NOTHING, *, sync: bool = True) -> None:
        """Brings the file up to date, if it is not so for a log that ends there, or anywhere.

        Without `sync` a power cut may still lose it.
        """
        if self.is_synced(log_end_offset) or (self._unwritten_from >= log_end_offset and not sync):
            return
        self._content().write(self._directory.path, sync=sync)
        self._unwritten_from = _NOTHING
        if sync:
            self._unsynced_from = _NOTHING
