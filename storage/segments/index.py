"""The sparse indexes of a segment: offset -> position, and timestamp -> offset.

Kafka's files to the byte: entries of 8 bytes (int32 offset relative to the segment's base, int32 position) and of 12 bytes
(int64 timestamp, int32 relative offset), big-endian, ascending. Kafka preallocates the active segment's index and maps it
to memory, and cuts it when the segment closes. Here an index file always has its exact length, as Kafka's has after
that cut: new entries wait in memory (`_PENDING_ENTRIES` at most) and are written together, because a crash has the index
of an unflushed segment rebuilt anyway. So an idle partition costs neither descriptors nor a mapping.
"""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from ..files.descriptors import open_fd
from ..files.segment_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from ..files.writes import unlink_if_exists, write_fully

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory

#: 512 entries stand for at least 2 MB of records: one small write in 2 MB.
_PENDING_ENTRIES = 512
#: A range this small is read at once instead of halved further.
_SCAN_ENTRIES = 256

#: Entries that are kept when they were read: a reader that goes on needs them for the next 4 MB of records.
_KEPT_ENTRIES = 512

NO_TIMESTAMP = -1
MAX_RELATIVE_OFFSET = 0x7FFFFFFF

_OFFSET_ENTRY = struct.Struct(">ii")
_pack_offset_entry = _OFFSET_ENTRY.pack
_PENDING_OFFSETS_BYTES = _PENDING_ENTRIES * _OFFSET_ENTRY.size


class CorruptIndex(Exception):
    """The index file cannot be of its segment: it is rebuilt from the log."""


class _Block(NamedTuple):
    """Entries that were read from the file, from number `start` on; `cuts` as they were before."""

    cuts: int
    start: int
    entries: bytes


_NO_BLOCK = _Block(-1, 0, b"")


class _SparseIndex(ABC):
    """Sorted entries of two columns, the older ones in the file, the newest still in memory."""

    __slots__ = ("_block", "_cuts", "_directory", "_in_file", "_pending", "base_offset", "suffix")

    ENTRY: struct.Struct
    SUFFIX: str

    def __init__(self, directory: PartitionDirectory, base_offset: int, suffix: str = "") -> None:
        self._directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self._pending = bytearray()
        self._in_file = 0
        #: How often entries were dropped: what was read from the file before does not count then.
        self._cuts = 0
        self._block = _NO_BLOCK
        self._load()

    @property
    def path(self) -> str:
        return self._directory.file(self.base_offset, self.SUFFIX + self.suffix)

    def __len__(self) -> int:
        return self._in_file + len(self._pending) // self.ENTRY.size

    @property
    def size(self) -> int:
        return len(self) * self.ENTRY.size

    def _load(self) -> None:
        width = self.ENTRY.size
        try:
            fd = open_fd(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise CorruptIndex(f"{self.path} is missing") from None
        try:
            size = os.fstat(fd).st_size
            self._in_file, rest = divmod(size, width)
            if rest:
                raise CorruptIndex(f"{self.path} has {size} bytes, which is not a multiple of {width}")
            if not size:
                self._set_ends(None, None)
            else:
                first, last = os.pread(fd, width, 0), os.pread(fd, width, size - width)
                self._set_ends(self.ENTRY.unpack(first), self.ENTRY.unpack(last))
        finally:
            os.close(fd)

    @abstractmethod
    def _set_ends(self, first: tuple[int, int] | None, last: tuple[int, int] | None) -> None:
        """Takes note of the first and the last entry. Raises CorruptIndex."""

    def _entries(self, first: int, count: int) -> bytes:
        fd = open_fd(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, count * self.ENTRY.size, first * self.ENTRY.size)
        finally:
            os.close(fd)

    def _entry(self, number: int) -> tuple[int, int]:
        width = self.ENTRY.size
        if number >= self._in_file:
            first, second = self.ENTRY.unpack_from(self._pending, (number - self._in_file) * width)
            return first, second
        cuts, start, entries = self._block
        at = (number - start) * width
        if cuts == self._cuts and 0 <= at < len(entries):
            first, second = self.ENTRY.unpack_from(entries, at)
        else:
            first, second = self.ENTRY.unpack(self._entries(number, 1))
        return first, second

    def _last_not_above(self, column: int, target: int) -> int:
        """The number of the last entry whose column is at most `target`, or -1."""
        if self._pending and self.ENTRY.unpack_from(self._pending)[column] <= target:
            return self._in_file + self._bisect(self._pending, column, target)
        if not self._in_file:
            return -1
        block = self._block  # a thread may replace it meanwhile
        if block.cuts != self._cuts or not self._is_within(block, column, target):
            block = self._block = self._read_block(column, target)
        return block.start + self._bisect(block.entries, column, target)

    def _is_within(self, block: _Block, column: int, target: int) -> bool:
        """Returns whether the last entry not above `target` is in the block for sure."""
        entries, entry = block.entries, self.ENTRY
        if entry.unpack_from(entries)[column] > target:
            return False
        last = len(entries) - entry.size
        return (
            target < entry.unpack_from(entries, last)[column] or block.start + last // entry.size + 1 == self._in_file
        )

    def _read_block(self, column: int, target: int) -> _Block:
        """Halves the file until few entries are left, and reads these with those behind them."""
        entry, width, cuts = self.ENTRY, self.ENTRY.size, self._cuts
        low, high = 0, self._in_file
        fd = open_fd(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while high - low > _SCAN_ENTRIES:
                middle = (low + high) // 2
                if entry.unpack(os.pread(fd, width, middle * width))[column] <= target:
                    low = middle
                else:
                    high = middle
            count = min(_KEPT_ENTRIES, self._in_file - low)
            return _Block(cuts, low, os.pread(fd, count * width, low * width))
        finally:
            os.close(fd)

    def _bisect(self, entries: bytes | bytearray, column: int, target: int) -> int:
        entry, width = self.ENTRY, self.ENTRY.size
        low, high = 0, len(entries) // width
        while low < high:
            middle = (low + high) // 2
            if entry.unpack_from(entries, middle * width)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def write(self) -> None:
        """Brings the file up to date."""
        if not self._pending:
            return
        fd = open_fd(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_fully(fd, self._pending, self._in_file * self.ENTRY.size)
            self._in_file += len(self._pending) // self.ENTRY.size
            self._pending.clear()
        finally:
            os.close(fd)

    def _keep(self, count: int) -> None:
        """Drops all entries from number `count` on."""
        width = self.ENTRY.size
        self._cuts += 1
        if count >= self._in_file:
            del self._pending[(count - self._in_file) * width :]
        else:
            self._pending.clear()
            self._in_file = count
            os.truncate(self.path, count * width)
        if len(self):
            self._set_ends(self._entry(0), self._entry(len(self) - 1))
        else:
            self._set_ends(None, None)

    def delete(self) -> None:
        unlink_if_exists(self.path)


class OffsetIndex(_SparseIndex):
    """Last offset of a batch -> the position where that batch starts."""

    __slots__ = ("last_offset", "last_position")

    ENTRY = _OFFSET_ENTRY
    SUFFIX = INDEX_SUFFIX

    last_offset: int
    last_position: int

    def _set_ends(self, first: tuple[int, int] | None, last: tuple[int, int] | None) -> None:
        self.last_offset, self.last_position = self.base_offset, 0
        if last is not None:
            relative, self.last_position = last
            self.last_offset = self.base_offset + relative
            # Zeros at the end: preallocated by a broker that was killed.
            if relative < 0 or self.last_position < 0 or (len(self) > 1 and self.last_position == 0):
                raise CorruptIndex(f"{self.path} ends with an entry for offset {self.last_offset}")

    def append(self, offset: int, position: int) -> None:
        relative = offset - self.base_offset
        assert 0 <= relative <= MAX_RELATIVE_OFFSET, f"{self.path} has no offset {offset}"
        if offset < self.last_offset:
            self.truncate_to(offset)  # entries of bytes that the segment's file has lost
        pending = self._pending
        # Those in the file may be anything.
        assert not pending or position >= self.last_position, f"{self.path}: {position} after {self.last_position}"
        self.last_offset, self.last_position = offset, position
        pending += _pack_offset_entry(relative, position)
        if len(pending) >= _PENDING_OFFSETS_BYTES:
            self.write()

    def floor(self, offset: int) -> int:
        """The position of the batch of the last entry not above `offset`: from there to scan for it."""
        if offset >= self.last_offset:
            return self.last_position
        number = self._last_not_above(0, offset - self.base_offset)
        return self._entry(number)[1] if number >= 0 else 0

    def floor_of_position(self, position: int) -> int:
        """The last known start of a batch that is not above `position`."""
        if position >= self.last_position:
            return self.last_position
        number = self._last_not_above(1, position)
        return self._entry(number)[1] if number >= 0 else 0

    def truncate_to(self, offset: int) -> None:
        """Keeps the entries below `offset`."""
        self._keep(self._last_not_above(0, offset - self.base_offset - 1) + 1)

    def clear(self) -> None:
        self._keep(0)


class TimeIndex(_SparseIndex):
    """The largest timestamp so far -> the last offset of the batch that has it."""

    __slots__ = ("last_offset", "last_timestamp")

    ENTRY = struct.Struct(">qi")
    SUFFIX = TIME_INDEX_SUFFIX

    last_offset: int
    last_timestamp: int

    def _set_ends(self, first: tuple[int, int] | None, last: tuple[int, int] | None) -> None:
        self.last_timestamp, self.last_offset = NO_TIMESTAMP, self.base_offset
        if first is not None and last is not None:
            self.last_timestamp, relative = last
            self.last_offset = self.base_offset + relative
            padded = len(self) > 1 and relative == 0
            if relative < 0 or padded or self.last_timestamp < first[0]:
                raise CorruptIndex(f"{self.path} ends with an entry for timestamp {self.last_timestamp}")

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry when the timestamp has grown; other entries bring nothing new."""
        if timestamp > self.last_timestamp:
            relative, pending = offset - self.base_offset, self._pending
            assert 0 <= relative <= MAX_RELATIVE_OFFSET, f"{self.path} has no offset {offset}"
            # Those in the file may be anything.
            assert not pending or offset >= self.last_offset, f"{self.path}: offset {offset} after {self.last_offset}"
            self.last_timestamp, self.last_offset = timestamp, offset
            pending += self.ENTRY.pack(timestamp, relative)
            if len(pending) >= _PENDING_ENTRIES * self.ENTRY.size:
                self.write()

    def floor(self, timestamp: int) -> int:
        """An offset before which every record is older than `timestamp`."""
        number = self._last_not_above(0, timestamp)
        return self.base_offset + self._entry(number)[1] if number >= 0 else self.base_offset

    def newest_below(self, offset: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry below `offset`; (NO_TIMESTAMP, base offset) where there is none."""
        number = self._last_not_above(1, offset - self.base_offset - 1)
        if number < 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self._entry(number)
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Keeps the entries below `offset`."""
        self._keep(self._last_not_above(1, offset - self.base_offset - 1) + 1)

    def clear(self) -> None:
        self._keep(0)
