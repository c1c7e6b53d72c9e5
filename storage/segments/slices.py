"""Whole record batches that are contiguous in one file: the data of a Fetch response."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, final

from ..files.page_cache import pread_nowait
from .damage import SegmentSuspected

if TYPE_CHECKING:
    from ..files.open_files import OpenFile

# `bytes` is a method below, and so no type there.
_Bytes = bytes


@final
class LogSlice:
    """`size` bytes from `position` of a segment's file, the first of them those of the batch that contains `offset`.

    It stays readable after the segment was closed or deleted, and may be read by any thread. `next_offset` is what a
    reader who has taken the slice asks for next. An empty slice has no file.
    """

    __slots__ = ("file", "is_unverified", "next_offset", "offset", "position", "segment_base_offset", "size")

    def __init__(
        self, file: OpenFile | None, position: int, size: int, offset: int, next_offset: int, segment_base_offset: int
    ) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.offset = offset
        self.next_offset = next_offset
        self.segment_base_offset = segment_base_offset
        #: Whether the segment is closed and was not verified since the log was opened.
        self.is_unverified = False

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"LogSlice(offset={self.offset}, next_offset={self.next_offset}, {self.size} bytes at {self.position})"

    @property
    def fd(self) -> int:
        """The descriptor for sendfile; -1 for an empty slice. Keep the slice as long as the descriptor is used."""
        return self.file.fd if self.file is not None else -1

    def bytes(self) -> _Bytes:
        """The batches; waits for the disk where it must. Raises OSError, SegmentSuspected where the file is cut short."""
        if self.file is None:
            return b""
        found = os.pread(self.file.fd, self.size, self.position)
        return found if len(found) == self.size else self._rest(found)

    def bytes_nowait(self) -> _Bytes | bytearray | None:
        """The batches if the page cache has them all, else None: let a thread call `bytes`."""
        if self.file is None:
            return b""
        try:
            found = pread_nowait(self.file.fd, self.size, self.position)
        except BlockingIOError:
            return None
        if len(found) < self.size:
            raise self.cut_short()
        return found

    def cut_short(self) -> SegmentSuspected:
        """The error of a file that ends before the slice does."""
        return SegmentSuspected(self.segment_base_offset, f"{self!r}: the file ends before")

    def _rest(self, data: _Bytes) -> _Bytes:
        assert self.file is not None
        while len(data) < self.size:
            more = os.pread(self.file.fd, self.size - len(data), self.position + len(data))
            if not more:
                raise self.cut_short()
            data += more
        return data
