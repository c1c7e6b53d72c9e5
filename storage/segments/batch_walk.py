"""Walking over the batches of a segment by their headers, which are looked at no closer than costs little.

A walk passes over the ranges that are known to be damaged, and raises where it meets something else than a batch.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ...protocol.records.batch import HEADER_BYTES, LEAST_OLD_LENGTH, LOG_OVERHEAD, MAGIC, read_header
from ...protocol.records.errors import CorruptBatch, OldFormatInLog
from .damage import SegmentSuspected

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..files.open_files import OpenFile

Pread = Callable[[int, int, int], bytes | bytearray]

#: Enough for the headers between two index entries, when the batches are small ones.
SCAN_BYTES = 8192
_SPAN = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_SPAN_BYTES = _SPAN.size
#: The bytes after the length in the smallest message of formats 0 and 1; zeros are no such message.


class WalkedSegment(Protocol):
    """The parts of a segment that a walk uses."""

    base_offset: int
    next_offset: int
    size: int
    #: Start and end positions of the damaged ranges; None where there are none.
    holes: Sequence[tuple[int, int]] | None

    @property
    def path(self) -> str: ...

    def file(self) -> OpenFile: ...


def spans(segment: WalkedSegment, position: int, pread: Pread = os.pread) -> Iterator[tuple[int, int, int, int]]:
    """(position, end position, base offset, last offset) of each batch from the one that starts at `position`.

    Damaged ranges are passed over. Raises SegmentSuspected where the disk has something else, OldFormatInLog where it is
    that.
    """
    if not segment.size:
        return
    fd = segment.file().fd
    chunk: bytes | bytearray = b""
    chunk_at, holes, least = position, segment.holes, 0
    # A segment whose end is being looked for has none yet.
    end_offset = segment.next_offset if segment.next_offset > segment.base_offset else 1 << 63
    while position < segment.size:
        if holes is not None and (behind := _behind_hole(holes, position)) != position:
            position = behind
            continue
        at = position - chunk_at
        if not 0 <= at <= len(chunk) - _SPAN_BYTES:
            chunk, chunk_at, at = pread(fd, min(SCAN_BYTES, segment.size - position), position), position, 0
            if len(chunk) < _SPAN_BYTES:
                raise suspected(segment, position)
        base_offset, length, magic, last_delta = _SPAN.unpack_from(chunk, at)
        if magic != MAGIC and _is_old(fd):
            raise OldFormatInLog(segment.path, magic)
        end, last_offset = position + LOG_OVERHEAD + length, base_offset + last_delta
        if (
            magic != MAGIC
            or length < HEADER_BYTES - LOG_OVERHEAD
            or end > segment.size
            or not least <= base_offset <= last_offset < end_offset
        ):
            raise suspected(segment, position)
        yield position, end, base_offset, last_offset
        position, least = end, last_offset + 1


def headers(segment: WalkedSegment, position: int, pread: Pread = os.pread) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from the one that starts at `position`; damage as in `spans`."""
    if not segment.size:
        return
    fd, holes = segment.file().fd, segment.holes
    while position < segment.size:
        if holes is not None and (behind := _behind_hole(holes, position)) != position:
            position = behind
            continue
        try:
            header = read_header(pread(fd, HEADER_BYTES, position))
        except CorruptBatch as error:
            raise suspected(segment, position) from error
        yield position, header
        position += header.size


def _is_old(fd: int) -> bool:
    """Returns whether the file begins with a message of format 0 or 1. Behind a batch of format 2 there is none."""
    start = os.pread(fd, _SPAN_BYTES, 0)
    if len(start) < _SPAN_BYTES:
        return False
    _, length, magic, _ = _SPAN.unpack(start)
    return bool(0 <= magic < MAGIC and length >= LEAST_OLD_LENGTH)


def suspected(segment: WalkedSegment, position: int) -> SegmentSuspected:
    return SegmentSuspected(segment.base_offset, f"no batch at {position} in {segment!r}")


def _behind_hole(holes: Sequence[tuple[int, int]], position: int) -> int:
    """Returns the position behind the damaged range at `position`, or `position` if there is none."""
    for start, end in holes:
        if start <= position < end:
            return end
    return position
