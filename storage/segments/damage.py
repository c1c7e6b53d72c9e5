"""Damaged ranges of a partition's log: bytes of its files that should hold batches and do not.

A torn tail is cut and is no damage. A range is damaged when valid batches follow it, or when the log ended behind it once:
its records were flushed, committed or followed by others, and are not there any more.

- Opening a log (`log/loading.py`) adds the ranges that it meets: it keeps all bytes, removes no segment, and never assigns
  an offset twice. Where the end of the log is lost, the last range reaches to the end that was known, and the log goes
  on there in a new segment.
- Reading and scrubbing add the ranges that they meet. A read of an offset in a range raises CorruptBatch; a read before a
  range ends at `first_offset`, and a walk over a file goes on at `position + size`, where the next whole batch starts.
- Fetching a range again from another replica ends with `healed`.

The ranges are in a small file of the partition's directory, `odradek-damage`, because a start after a clean stop reads no
segment. Kafka passes over a file of that name. The file may be lost: a reader or the scrubber meets the damage again.

```
0                                               version
1                                               entries
4096 1131 17 34 00000000000000000000.log bad-crc  position, size, first offset, next offset, file, reason
```
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.errors import CorruptBatch
from ..files.writes import read_if_exists, unlink_if_exists, write_atomically

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory

FILE_NAME = "odradek-damage"
VERSION = 0
#: Ranges of one log that are remembered: a reader passes over the list, and a disk with more holes is to be replaced.
#: A reader that reaches a further range reports it again.
MOST_RANGES = 1000

#: The scrubber's thread saves what was found, another what was healed. Both are rare, and wait for one disk.
_saving = threading.Lock()


class DamagedRange(NamedTuple):
    """`file` is the name of the segment's file. The bytes before `position` and from `position + size` on are whole batches.

    A range of `size` 0 lies at the end of its file: the file is shorter than it was, or gone. The offsets from
    `first_offset` up to, and without, `next_offset` are not readable. `reason`: a few words.
    """

    file: str
    position: int
    size: int
    first_offset: int
    next_offset: int
    reason: str


class OffsetDamaged(CorruptBatch):
    """The offset that is read lies in a damaged range, or nothing but the range follows it."""

    def __init__(self, path: str, damaged: DamagedRange) -> None:
        super().__init__(
            f"{path}: offsets {damaged.first_offset} to {damaged.next_offset - 1} are damaged "
            f"({damaged.file} at {damaged.position}: {damaged.reason})"
        )
        self.damaged = damaged


class SegmentSuspected(CorruptBatch):
    """A reader met something else than a batch in a segment. How far the damage reaches is not known yet."""

    def __init__(self, base_offset: int, words: str) -> None:
        super().__init__(words)
        self.base_offset = base_offset

    def __reduce__(self) -> tuple[type[SegmentSuspected], tuple[int, str]]:
        return SegmentSuspected, (self.base_offset, str(self))


class Damage:
    """The damaged ranges of one log in the order of their offsets; they do not overlap. False when there are none."""

    __slots__ = ("_directory", "_firsts", "_saved", "left_out", "ranges")

    def __init__(self, directory: PartitionDirectory) -> None:
        self._directory = directory
        #: Ordered by offset, without overlaps. Only methods of this class change it.
        self.ranges: list[DamagedRange] = []
        self._firsts: list[int] = []
        self._saved: bytes | None = None
        #: Ranges for which there was no room.
        self.left_out = 0

    @classmethod
    def load(cls, directory: PartitionDirectory) -> Damage:
        """From the partition's directory. A file that cannot be understood counts as none. Raises OSError."""
        damage = cls(directory)
        damage._saved = read_if_exists(f"{directory.path}/{FILE_NAME}")
        for one in _decode(damage._saved or b""):
            damage.add(one)
        return damage

    def __len__(self) -> int:
        return len(self.ranges)

    def __iter__(self) -> Iterator[DamagedRange]:
        return iter(tuple(self.ranges))

    def covers(self, offset: int) -> DamagedRange | None:
        """The range that `offset` lies in."""
        number = bisect_right(self._firsts, offset) - 1
        if number >= 0 and offset < self.ranges[number].next_offset:
            return self.ranges[number]
        return None

    def following(self, offset: int) -> DamagedRange | None:
        """The first range that ends above `offset`: the one that a read from there meets."""
        found = self.covers(offset)
        if found is not None:
            return found
        number = bisect_right(self._firsts, offset)
        return self.ranges[number] if number < len(self.ranges) else None

    def in_file(self, file: str) -> list[DamagedRange]:
        """The ranges of a segment's file, in the order of their positions."""
        return [one for one in self.ranges if one.file == file]

    def add(self, damaged: DamagedRange) -> bool:
        """Adds a range, joined with those that it overlaps. Returns whether the list has changed."""
        if damaged.first_offset >= damaged.next_offset:
            return False
        same = [
            one
            for one in self.ranges
            if one.first_offset < damaged.next_offset and damaged.first_offset < one.next_offset
        ]
        if any(one.first_offset <= damaged.first_offset and damaged.next_offset <= one.next_offset for one in same):
            return False
        if len(self.ranges) - len(same) >= MOST_RANGES:
            self.left_out += 1
            return False
        for one in same:
            damaged = _joined(damaged, one)
            self.ranges.remove(one)
        insort(self.ranges, damaged, key=_first_offset)
        self._index()
        return True

    def healed(self, first_offset: int, next_offset: int) -> list[DamagedRange]:
        """The ranges that lie within these offsets are whole again, or gone from the log; they are removed and returned."""
        gone = [one for one in self.ranges if first_offset <= one.first_offset and one.next_offset <= next_offset]
        if gone:
            self.ranges = [one for one in self.ranges if one not in gone]
            self._index()
        return gone

    def move(self, file: str, position: int, by: int) -> None:
        """Moves the ranges behind a position of a file by so many bytes."""
        self.ranges = [
            one._replace(position=one.position + by) if one.file == file and one.position > position else one
            for one in self.ranges
        ]

    def restrict(self, log_start_offset: int, log_end_offset: int) -> None:
        """Forgets the ranges that lie outside of the log; one across its end is cut there."""
        kept = [one for one in self.ranges if one.next_offset > log_start_offset and one.first_offset < log_end_offset]
        self.ranges = [one._replace(next_offset=min(one.next_offset, log_end_offset)) for one in kept]
        self._index()

    def file_reaches(self, offset: int) -> bool:
        """Returns whether the file has a range that reaches above `offset`."""
        return any(one.next_offset > offset for one in _decode(self._saved or b""))

    def save(self, below: int = 1 << 63) -> bool:
        """Brings the file up to date, and removes it where there is no damage. Whether it had to. Raises OSError.

        `below`: the offset at which the log is about to be cut. The file then has no range from there on.
        """
        with _saving:
            ranges = [
                one._replace(next_offset=min(one.next_offset, below))
                for one in list(self.ranges)
                if one.first_offset < below
            ]
            content = _encode(ranges) if ranges else None
            if content == self._saved:
                return False
            path = f"{self._directory.path}/{FILE_NAME}"
            if content is None:
                unlink_if_exists(path)
            else:
                write_atomically(path, content)
            self._saved = content
            return True

    def _index(self) -> None:
        self._firsts = [one.first_offset for one in self.ranges]


def _first_offset(damaged: DamagedRange) -> int:
    return damaged.first_offset


def _joined(this: DamagedRange, other: DamagedRange) -> DamagedRange:
    """Returns one range for two that overlap. Across files only the offsets are joined; the position is the first one's."""
    first = min(this, other, key=_first_offset)
    end = max(this.next_offset, other.next_offset)
    if this.file != other.file:
        return first._replace(next_offset=end)
    position = min(this.position, other.position)
    size = max(this.position + this.size, other.position + other.size) - position
    return DamagedRange(this.file, position, size, first.first_offset, end, first.reason)


def _encode(ranges: list[DamagedRange]) -> bytes:
    lines = [
        f"{one.position} {one.size} {one.first_offset} {one.next_offset} {one.file} {one.reason.replace(' ', '-')}"
        for one in ranges
    ]
    return "\n".join((str(VERSION), str(len(lines)), *lines, "")).encode()


def _decode(content: bytes) -> list[DamagedRange]:
    found: list[DamagedRange] = []
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        if int(version) != VERSION or int(count) != len(lines):
            return []
        for line in lines:
            position, size, first, following, file, reason = line.split(" ")
            found.append(
                DamagedRange(file, int(position), int(size), int(first), int(following), reason.replace("-", " "))
            )
    except ValueError:
        return []
    return found
