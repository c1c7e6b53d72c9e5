"""What a log has for a share partition: whole batches, which of them are given, and which nobody is to have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.batch import HEADER_BYTES, BatchHeader, read_header
from ...storage.batch_walk import Pread
from ...storage.files import pread_nowait
from ...storage.slices import LogSlice

if TYPE_CHECKING:
    from ...storage.log import Log

#: Headers of small batches are read in stretches of this; of large ones, of which a stretch holds no two, only the header.
STRETCH_BYTES = 16 * 1024


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    #: In the file.
    position: int
    size: int
    header: BatchHeader


def batches_of(found: LogSlice, pread: Pread = pread_nowait) -> Iterator[Batch]:
    """The batches of a slice, of which only the headers are read. Raises BlockingIOError with `pread_nowait`."""
    end = found.position + found.size
    position = stretch_start = found.position
    stretch: bytes | bytearray = b""
    wanted = STRETCH_BYTES
    while position < end:
        if position + HEADER_BYTES > stretch_start + len(stretch):
            stretch_start = position
            stretch = pread(found.fd, min(wanted, end - position), position)
        header = read_header(stretch, position - stretch_start)
        size = header.size
        yield Batch(header.base_offset, header.last_offset, position, size, header)
        position += size
        wanted = HEADER_BYTES if 2 * size > STRETCH_BYTES else STRETCH_BYTES


def cut(found: LogSlice, batches: list[Batch], first: int, last: int) -> LogSlice:
    """The batches that have anything from `first` to `last`."""
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


def aborted_stretches(log: Log, batches: list[Batch]) -> list[tuple[int, int]]:
    """First and last offset of the batches whose transactions were aborted; not their markers, which hold no records."""
    entries = log.aborted_transactions(batches[0].base_offset, batches[-1].last_offset + 1)
    begins = sorted((entry.first_offset, entry.producer_id) for entry in entries)
    aborted: set[int] = set()
    stretches: list[tuple[int, int]] = []
    for batch in batches:
        header = batch.header
        while begins and begins[0][0] <= header.last_offset:
            aborted.add(begins.pop(0)[1])
        if header.producer_id in aborted and header.is_transactional:
            if header.is_control:
                aborted.discard(header.producer_id)
            else:
                stretches.append((header.base_offset, header.last_offset))
    return stretches
