"""A segment: one `.log` file of whole record batches, its two sparse indexes, and the aborted transactions in it.

Only the last segment of a log is written to. All is opened when first needed, and the data file is closed again
when others need the descriptor. Reading takes `pread`, which is `os.pread` or, where the caller must not wait for a
disk, `pread_nowait`.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...protocol.records.batch import LOG_OVERHEAD
from ...protocol.records.errors import CorruptBatch
from ..files import write_checks
from ..files.descriptors import open_fd
from ..files.open_files import OpenFile
from ..files.segment_files import KEY_FILTER_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES
from ..files.writes import unlink_if_exists, write_atomically, write_fully
from .batch_walk import SCAN_BYTES, headers, spans, suspected
from .batches import rebuild_indexes
from .damage import SegmentSuspected
from .index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, CorruptIndex, OffsetIndex, TimeIndex

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.records.batch import BatchHeader
    from ..files.open_files import OpenFiles
    from ..files.partition_directory import PartitionDirectory
    from .batch_walk import Pread

log = logging.getLogger("odradek.storage")

#: Places where readers stopped and will come back to. Consumers at different places in one segment are few.
_MOST_HINTS = 32
#: A larger batch is written in parts of this size (`write_ahead`), each in some 0.5 ms, and others are served in between.
PART_BYTES = 1 << 20
_UNKNOWN = -2
I = TypeVar("I", OffsetIndex, TimeIndex)


class SegmentCut(NamedTuple):
    """The place where a segment is to be cut, and what it has then: the batches that end before `offset`."""

    offset: int
    position: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int


class Segment:
    """`next_offset` and `size` are the ends of what was written; the fields below them are known once asked for."""

    __slots__ = (
        "_ahead", "_directory", "_file", "_files", "_first_timestamp", "_hints", "_offset_index", "_planned_bytes",
        "_tail_offset",
        "_tail_position", "_time_index", "base_offset", "bytes_since_index_entry", "created_ms", "entries_left",
        "has_aborted", "holes", "is_full", "is_read", "is_verified", "max_timestamp", "next_offset",
        "offset_of_max_timestamp", "size", "suffix", "used",
    )  # fmt: skip

    def __init__(
        self, directory: PartitionDirectory, files: OpenFiles, base_offset: int, created_ms: int, suffix: str = ""
    ) -> None:
        self._directory = directory
        self._files = files
        self._file: OpenFile | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._first_timestamp = _UNKNOWN
        #: Bytes to reserve for files that are not there yet (`planned`); None when they are there.
        self._planned_bytes: int | None = None
        self._hints: dict[int, int] | None = None
        #: A large batch that `write_ahead` is writing, and how much of it is written.
        self._ahead: tuple[Buffer, int] | None = None
        # The newest append: what a reader at the end of the log asks for next.
        self._tail_offset = _UNKNOWN
        self._tail_position = 0
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.suffix = suffix
        self.bytes_since_index_entry = 0
        #: Index entries that may still be added, as `may_take` found; it is called again when there are none.
        self.entries_left = 0
        #: Whether there is an index of aborted transactions; None until the first search for it.
        self.has_aborted: bool | None = None
        #: (position, end) of the damaged ranges in the file, in order; None where there are none.
        self.holes: Sequence[tuple[int, int]] | None = None
        #: Whether the next append goes to another segment, whatever there is room for here.
        self.is_full = False
        #: Whether slices of its file were given to readers, who may send them later.
        self.is_read = False
        #: Whether its file was verified since the log was opened, or is to be soon.
        self.is_verified = False
        self.max_timestamp = _UNKNOWN
        self.offset_of_max_timestamp = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.used = False

    @classmethod
    def create(
        cls, directory: PartitionDirectory, files: OpenFiles, base_offset: int, now_ms: int, *, preallocated: int = 0
    ) -> Segment:
        """New and empty on disk. `preallocated`: bytes to reserve, cut again by `become_inactive` or `close`."""
        segment = cls.planned(directory, files, base_offset, now_ms, preallocated=preallocated)
        segment._make_files()
        return segment

    @classmethod
    def planned(
        cls, directory: PartitionDirectory, files: OpenFiles, base_offset: int, now_ms: int, *, preallocated: int = 0
    ) -> Segment:
        """New and empty, as by `create`; the files are made with the first append."""
        segment = cls(directory, files, base_offset, now_ms)
        segment._planned_bytes = preallocated
        segment.max_timestamp = NO_TIMESTAMP
        segment._first_timestamp = NO_TIMESTAMP
        return segment

    def _make_files(self) -> None:
        """Makes the data file first: an index without one would tell of lost records."""
        for kind in SEGMENT_SUFFIXES[:3]:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            os.close(open_fd(self._directory.file(self.base_offset, kind), flags, 0o600))
        preallocated, self._planned_bytes = self._planned_bytes, None
        if preallocated:
            os.truncate(self.path, preallocated)

    @classmethod
    def existing(
        cls, directory: PartitionDirectory, files: OpenFiles, base_offset: int, now_ms: int, suffix: str = ""
    ) -> Segment:
        """Returns a segment that is on the disk; its end is set later."""
        segment = cls(directory, files, base_offset, now_ms, suffix)
        segment.size = os.stat(segment.path).st_size
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes, offsets {self.base_offset}-{self.next_offset})"

    @property
    def path(self) -> str:
        return self._directory.file(self.base_offset, LOG_SUFFIX + self.suffix)

    @property
    def is_planned(self) -> bool:
        """Returns whether its files are made with the first append."""
        return self._planned_bytes is not None

    # ---- files, opened when needed

    def file(self) -> OpenFile:
        self.used = True
        file = self._file
        if file is None:
            if self._planned_bytes is not None:
                self._make_files()
            file = self._file = OpenFile(self.path)
            self._files.admit(self)
        return file

    def release_file(self) -> None:
        self._file = None

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            index = self._offset_index = self._opened(OffsetIndex)
            if index.last_position >= max(self.size, 1):
                # The file was cut, so the index is rebuilt too.
                self._rebuild()
                index = self._offset_index = OffsetIndex(self._directory, self.base_offset, self.suffix)
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            index = self._time_index = self._opened(TimeIndex)
            if len(index) and self._is_end_known and index.last_offset >= self.next_offset:
                self._rebuild()
                index = self._time_index = TimeIndex(self._directory, self.base_offset, self.suffix)
        return index

    @property
    def _is_end_known(self) -> bool:
        """Returns whether `next_offset` is the end of the file: a segment that is being opened has none yet."""
        return self.next_offset > self.base_offset or not self.size

    def _opened(self, kind: type[I]) -> I:
        try:
            return kind(self._directory, self.base_offset, self.suffix)
        except CorruptIndex:
            self._rebuild()
            return kind(self._directory, self.base_offset, self.suffix)

    def _rebuild(self) -> None:
        self._offset_index = self._time_index = None
        if not self.exists():
            for path in self.index_paths()[:2]:
                write_atomically(path, b"", sync=False)
            return
        log.warning("%s: its indexes are missing or wrong and are rebuilt", self.path)
        rebuild_indexes(self.path, self._directory, self.base_offset, self.size, self.suffix)

    def forget_indexes(self) -> None:
        """To be read from their files again; what was only in memory of them is dropped."""
        self._offset_index = self._time_index = None
        self.max_timestamp = self._first_timestamp = _UNKNOWN

    def replace_indexes(self, offset_index: bytes, time_index: bytes) -> None:
        """Replaces the indexes of a segment that is no longer appended to."""
        for path, content in zip(self.index_paths(), (offset_index, time_index), strict=False):
            write_atomically(path, content, sync=False)
        self.forget_indexes()

    # ---- writing

    def append(self, buffer: Buffer, headers: Sequence[BatchHeader], index_interval: int) -> None:
        """Writes whole batches at the end. `headers` are theirs, in order, offsets assigned."""
        if write_checks.active:
            write_checks.run(self._directory.path, write_checks.APPEND)
        start = position = self.size
        size = len(buffer)
        first, last = headers[0], headers[-1]
        offset = first.base_offset
        assert offset >= self.next_offset, f"offset {offset} for {self!r}, whose next offset is {self.next_offset}"
        assert last.base_offset + last.last_offset_delta - self.base_offset <= MAX_RELATIVE_OFFSET, (
            f"{last} is too far for {self!r}"
        )
        self.used = True
        file = self._file or self.file()
        if self._ahead is not None:
            self._complete(file, buffer)
        elif os.pwrite(file.fd, buffer, start) != size:
            write_fully(file.fd, buffer, start)
        self.size = start + size
        since_entry = self.bytes_since_index_entry
        for base_offset, length, _, _, _, _, last_delta, _, timestamp, _, _, _, _ in headers:
            last_offset = base_offset + last_delta
            if timestamp > self.max_timestamp and (
                self.max_timestamp != _UNKNOWN or timestamp > self.largest_timestamp()
            ):
                self.max_timestamp, self.offset_of_max_timestamp = timestamp, last_offset
            if since_entry > index_interval:
                self._add_index_entries(last_offset, position)
                since_entry = 0
            since_entry += length + LOG_OVERHEAD
            position += length + LOG_OVERHEAD
        self.bytes_since_index_entry = since_entry
        self._tail_offset, self._tail_position = offset, start
        self.next_offset = last_offset + 1
        if self._first_timestamp == NO_TIMESTAMP:
            self._first_timestamp = first.max_timestamp

    def write_ahead(self, buffer: Buffer) -> bool:
        """Writes the next part of a large batch behind the end. Returns whether `append` is next, which writes the first.

        Until then a reader, or a recovery after a crash, finds no batch there: the header is in the first part.
        """
        ahead = self._ahead
        if ahead is None or ahead[0] is not buffer:
            self.drop_ahead()
            ahead = buffer, PART_BYTES
        if write_checks.active:
            write_checks.run(self._directory.path, write_checks.APPEND)
        position = ahead[1]
        part = memoryview(buffer)[position : position + PART_BYTES]
        self._ahead = buffer, position + len(part)
        write_fully(self.file().fd, part, self.size + position)
        return position + len(part) >= len(buffer)

    def _complete(self, file: OpenFile, buffer: Buffer) -> None:
        """Writes what is not written ahead of a batch."""
        assert self._ahead is not None
        ahead, written = self._ahead
        if ahead is buffer and written >= len(buffer):
            write_fully(file.fd, memoryview(buffer)[:PART_BYTES], self.size)
            self._ahead = None
        else:
            self.drop_ahead()
            write_fully(file.fd, buffer, self.size)

    def drop_ahead(self) -> None:
        """Cuts off what was written of a batch that is not appended now."""
        if self._ahead is not None:
            self._ahead = None
            os.truncate(self.path, self.size)

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        offset_index, time_index, timestamp = self._offset_index, self._time_index, self.max_timestamp
        (self.offset_index if offset_index is None else offset_index).append(last_offset, position)
        if time_index is None or timestamp > time_index.last_timestamp or timestamp == _UNKNOWN:
            self.time_index.append(self.largest_timestamp(), self.offset_of_max_timestamp)
        self.entries_left -= 1

    def may_take(self, size: int, last_offset: int, segment_bytes: int, segment_index_bytes: int) -> bool:
        """Returns whether a batch of `size` bytes fits into the file, the indexes, and 31 bits of relative offset."""
        if self.is_full or (self.size and self.size + size > segment_bytes):
            return False
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return False
        offsets, times = (len(self.offset_index), len(self.time_index)) if self.size else (0, 0)
        # One entry is kept for the largest timestamp, which is added when the segment closes.
        times_left = segment_index_bytes // TimeIndex.ENTRY.size - 1 - times
        self.entries_left = min(segment_index_bytes // OffsetIndex.ENTRY.size - offsets, times_left)
        return self.entries_left > 0

    def cut_at(self, offset: int) -> SegmentCut:
        """Finds the end of the last batch before `offset`. Changes nothing but indexes that are wrong.

        Raises SegmentSuspected, OldMessageFormat.
        """
        position = self.position_of(offset)
        floor = min(self.offset_index.floor(offset - 1), position)
        return (
            self._cut_from(floor, offset, position) or self._cut_from(0, offset, position) or self._cut_of_all(offset)
        )

    def _cut_from(self, start: int, offset: int, position: int) -> SegmentCut | None:
        """Walks from the batch at `start` to `position`, before which all batches end before `offset`. Returns None without
        one.
        """
        end, next_offset = start, self.base_offset
        max_timestamp, offset_of_max_timestamp = self.time_index.newest_below(offset)
        for at, header in self.headers(start):
            if at >= position:
                break
            if not next_offset <= header.base_offset < header.next_offset <= offset or at + header.size > position:
                raise suspected(self, at)
            end, next_offset = at + header.size, header.next_offset
            if header.max_timestamp > max_timestamp:
                max_timestamp, offset_of_max_timestamp = header.max_timestamp, header.last_offset
        if end == start:
            return None
        return SegmentCut(offset, end, next_offset, max_timestamp, offset_of_max_timestamp)

    def _cut_of_all(self, offset: int) -> SegmentCut:
        return SegmentCut(offset, 0, self.base_offset, NO_TIMESTAMP, self.base_offset)

    def truncate(self, cut: SegmentCut, copied: str = "") -> None:
        """Removes what is behind a cut. `copied`: a file with what stays (../log/cut_copy.py), which takes this one's place.

        Reads no batch, so that it ends unless the disk fails. A response that is still to be sent may hold a slice of what
        goes. Nothing is written in its place, so that such a slice ends early, and never holds batches that were cut in two.
        But where there is no copy, the rest of the page of the cut is zero in what `sendfile` has given to a socket, as with
        Apache Kafka. A client finds that by the magic or the CRC.
        """
        if self.is_read and (copied or not cut.position):
            self._begin_another_file(copied)
        else:
            os.ftruncate(self.file().fd, cut.position)
            self.is_full = self.is_read
        self._ahead = None
        self.offset_index.truncate_to(cut.offset)
        self.time_index.truncate_to(cut.offset)
        self.size = cut.position
        self.bytes_since_index_entry = 0
        self._hints = None
        self._tail_offset = _UNKNOWN
        self.next_offset = cut.next_offset
        self.max_timestamp, self.offset_of_max_timestamp = cut.max_timestamp, cut.offset_of_max_timestamp
        self._first_timestamp = _UNKNOWN if self.size else NO_TIMESTAMP

    def _begin_another_file(self, copied: str) -> None:
        """Has another file in place of this one, which stays as it is for readers. It is empty without a copy: no other
        segment can have this base offset.
        """
        if copied:
            os.replace(copied, self.path)
        else:
            write_atomically(self.path, b"", sync=False)
        self._files.forget(self)
        self._file = None
        self.is_full = False

    def shrink(self, size: int) -> None:
        """The file turned out to have only `size` bytes."""
        self.size = min(self.size, size)
        self._hints = None
        self._tail_offset = _UNKNOWN
        self.close()

    def find_end(self) -> bool:
        """Sets `next_offset` from the last index entry on; False when the file does not end with a whole batch."""
        if not self.size:
            return True
        try:
            start = self.offset_index.last_position if self.size > SCAN_BYTES else 0
            for _, _, _, last_offset in spans(self, start):
                self.next_offset = last_offset + 1
        except (CorruptBatch, struct.error):
            return False
        return True

    def become_inactive(self) -> None:
        """Another segment takes the appends: the indexes are completed, as Kafka's are."""
        self.write_indexes()
        self._ahead = None
        if self.is_planned:
            return
        with suppress(FileNotFoundError):  # it is damaged, and another segment is begun for that
            if os.stat(self.path).st_size > self.size:  # it was preallocated, or written ahead
                os.truncate(self.path, self.size)

    def write_indexes(self) -> None:
        if self._time_index is not None and self.max_timestamp != _UNKNOWN:
            self._time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
        self.write_pending()

    def write_pending(self) -> None:
        """Brings the files of the indexes up to date."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.write()

    def index_paths(self) -> tuple[str, ...]:
        return tuple(self._directory.file(self.base_offset, kind + self.suffix) for kind in SEGMENT_SUFFIXES[1:])

    def close(self) -> None:
        self._files.forget(self)
        self._file = self._ahead = None
        self._offset_index = self._time_index = None

    def delete(self) -> None:
        self.close()
        self.unlink()

    def unlink(self) -> None:
        """Removes its files. Any thread may call it."""
        for kind in SEGMENT_SUFFIXES:
            unlink_if_exists(self._directory.file(self.base_offset, kind + self.suffix))
        unlink_if_exists(self._directory.file(self.base_offset, KEY_FILTER_SUFFIX))

    def change_suffix(self, suffix: str) -> None:
        """Renames all files of the segment: `.cleaned`, `.swap`, `.deleted` or none."""
        for kind in SEGMENT_SUFFIXES:
            old = self._directory.file(self.base_offset, kind + self.suffix)
            if os.path.exists(old):
                os.rename(old, self._directory.file(self.base_offset, kind + suffix))
        self.suffix = suffix
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.suffix = suffix

    # ---- finding and reading

    def headers(self, position: int, pread: Pread = os.pread) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from the one that starts at `position`. Damaged ranges are passed over."""
        return headers(self, position, pread)

    def batch_bytes(self, position: int, size: int) -> bytes:
        return os.pread(self.file().fd, size, position)

    def position_of(self, offset: int, pread: Pread = os.pread) -> int:
        """Returns the position of the first batch that ends at or behind `offset`; the segment's size if there is none."""
        if offset >= self.next_offset:
            return self.size
        if offset <= self.base_offset:
            return 0
        if offset == self._tail_offset:
            return self._tail_position
        if self._hints is not None:
            hinted = self._hints.get(offset)
            if hinted is not None:
                return hinted
        floor = self.offset_index.floor(offset)
        for position, _, base_offset, last_offset in spans(self, floor, pread):
            if last_offset >= offset:
                if position == floor > 0 and base_offset > offset and self.holes is None:
                    raise SegmentSuspected(self.base_offset, f"the index of {self!r} passes over offset {offset}")
                return position
        return self.size

    def end_of_slice(self, start: int, max_bytes: int, limit: int, pread: Pread = os.pread) -> tuple[int, int | None]:
        """Returns the end of the whole batches between `start` (of a batch) and `limit` that take at most `max_bytes`,
        and the offset that follows them; (`start`, None) if there are none.
        """
        farthest = start + max_bytes
        if farthest >= limit == self.size:
            return limit, self.next_offset
        farthest = min(farthest, limit)
        end, next_offset = start, None
        known = start
        if farthest - start > SCAN_BYTES:
            known = max(start, self.offset_index.floor_of_position(farthest))
        for position, batch_end, base_offset, last_offset in spans(self, known, pread):
            if position == known > start:
                end, next_offset = known, base_offset
            if batch_end > farthest:
                break
            end, next_offset = batch_end, last_offset + 1
        return end, next_offset

    def first_batch(self, start: int, pread: Pread = os.pread) -> tuple[int, int]:
        """(position of the end, next offset) of the batch that starts at `start`."""
        for _, end, _, last_offset in spans(self, start, pread):
            return end, last_offset + 1
        raise suspected(self, start)

    def remember(self, offset: int, position: int) -> None:
        """A reader stopped before `offset`, whose batch starts at `position`: it will ask for it next."""
        hints = self._hints
        if hints is None:
            hints = self._hints = {}
        elif len(hints) >= _MOST_HINTS and offset not in hints:
            hints.pop(next(iter(hints)), None)
        hints[offset] = position

    # ---- times

    def largest_timestamp(self) -> int:
        """The largest timestamp in the segment, or NO_TIMESTAMP."""
        if self.max_timestamp == _UNKNOWN:
            self.max_timestamp = self.time_index.last_timestamp
            self.offset_of_max_timestamp = self.time_index.last_offset
        return self.max_timestamp

    def newest_ms(self) -> int:
        """The time from which retention counts: of the newest record; of the file, where records carry none."""
        newest = self.largest_timestamp()
        return newest if newest >= 0 else self.modified_ms()

    def first_timestamp(self) -> int:
        """The timestamp that rolling by time counts from: the largest one of the first batch; NO_TIMESTAMP if empty."""
        if self._first_timestamp == _UNKNOWN:
            self._first_timestamp = NO_TIMESTAMP
            with suppress(CorruptBatch):  # then the age of the file counts
                for _, header in self.headers(0):
                    self._first_timestamp = header.max_timestamp
                    break
        return self._first_timestamp

    def waited_ms(self, now_ms: int, incoming_timestamp: int) -> int:
        """Returns how long the segment has been filling, as Kafka counts: by the records' timestamps if they have any."""
        first = self.first_timestamp()
        return incoming_timestamp - first if first >= 0 else now_ms - self.created_ms

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def modified_ms(self) -> int:
        """A file that is gone is as old as its segment here."""
        try:
            return os.stat(self.path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return self.created_ms
