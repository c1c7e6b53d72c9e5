"""Reads the log for a share partition: whole batches, and the ranges of aborted transactions, which no member gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.batch import HEADER_BYTES, BatchHeader, read_header
from ...storage.files.open_files import pread_nowait
from ...storage.segments.batch_walk import Pread
from ...storage.segments.segment import LogSlice

if TYPE_CHECKING:
    from ...storage.log.log import Log

#: Headers of small batches are read in ranges of this size. For batches of which a range does not hold two, only the
#: header is read.
READ_AHEAD_BYTES = 16 * 1024


class Batch(NamedTuple):
    """A record batch in the file of a log segment."""

    base_offset: int
    last_offset: int
    #: Position in the file.
    position: int
    size: int
    header: BatchHeader


def batches_of(found: LogSlice, pread: Pread = pread_nowait) -> Iterator[Batch]:
    """Yields the batches of a slice. Only headers are read. Raises BlockingIOError with `pread_nowait`."""
    end = found.position + found.size
    position = read_from = found.position
    data: bytes | bytearray = b""
    wanted = READ_AHEAD_BYTES
    while position < end:
        if position + HEADER_BYTES > read_from + len(data):
            read_from = position
            data = pread(found.fd, min(wanted, end - position), position)
        header = read_header(data, position - read_from)
        size = header.size
        yield Batch(header.base_offset, header.last_offset, position, size, header)
        position += size
        wanted = HEADER_BYTES if 2 * size > READ_AHEAD_BYTES else READ_AHEAD_BYTES


def cut(found: LogSlice, batches: list[Batch], first: int, last: int) -> LogSlice:
    """Returns the batches that contain any offset from `first` to `last`."""
    wanted = [b for b in batches if b.last_offset >= first and b.base_offset <= last]
    start, end = wanted[0], wanted[-1]
    return LogSlice(
        found.file,
        start.position,
        end.position + end.size - start.position,
        start.base_offset,
        end.last_offset + 1,
        found.segment_base_offset,
    )


def aborted_ranges(log: Log, batches: list[Batch]) -> list[tuple[int, int]]:
    """Returns the first and last offset of batches of aborted transactions, without their markers, which hold no
    records.
    """
    entries = log.aborted_transactions(batches[0].base_offset, batches[-1].last_offset + 1)
    begins = sorted((entry.first_offset, entry.producer_id) for entry in entries)
    aborted: set[int] = set()
    ranges: list[tuple[int, int]] = []
    for batch in batches:
        header = batch.header
        while begins and begins[0][0] <= header.last_offset:
            aborted.add(begins.pop(0)[1])
        if header.producer_id in aborted and header.is_transactional:
            if header.is_control:
                aborted.discard(header.producer_id)
            else:
                ranges.append((header.base_offset, header.last_offset))
    return ranges
