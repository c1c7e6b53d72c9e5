"""Reads the log for a share partition: whole batches, and the ranges of aborted transactions, which no member gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.batch import HEADER_BYTES, iter_headers, read_header
from ...storage.files.page_cache import pread_nowait
from ...storage.segments.slices import LogSlice
from ..partitions.remote_reads import RemoteSlice

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ...storage.segments.aborted import AbortedTransaction
    from ...storage.segments.batch_walk import Pread

#: Headers of small batches are read in ranges of this size. For batches of which a range does not hold two, only the
#: header is read.
READ_AHEAD_BYTES = 16 * 1024


class ShareBatch(NamedTuple):
    """A record batch in the file of a log segment, or in the bytes that the remote store returned."""

    base_offset: int
    last_offset: int
    #: Position in the file, or in the bytes.
    position: int
    size: int
    header: BatchHeader


def batches_of(slice_: LogSlice, pread: Pread = pread_nowait) -> Iterator[ShareBatch]:
    """Yields the batches of a slice. Only headers are read. Raises BlockingIOError with `pread_nowait`."""
    end = slice_.position + slice_.size
    position = read_from = slice_.position
    data: bytes | bytearray = b""
    wanted = READ_AHEAD_BYTES
    while position < end:
        if position + HEADER_BYTES > read_from + len(data):
            read_from = position
            data = pread(slice_.fd, min(wanted, end - position), position)
        header = read_header(data, position - read_from)
        size = header.size
        yield ShareBatch(header.base_offset, header.last_offset, position, size, header)
        position += size
        wanted = HEADER_BYTES if 2 * size > READ_AHEAD_BYTES else READ_AHEAD_BYTES


def batches_in(data: memoryview | bytes, offset: int, limit: int) -> Iterator[ShareBatch]:
    """Yields the batches of the remote store that have records from `offset` on, and begin before `limit`."""
    for position, header in iter_headers(data):
        if header.base_offset >= limit:
            return
        if header.last_offset >= offset:
            yield ShareBatch(header.base_offset, header.last_offset, position, header.size, header)


def cut(source: LogSlice | RemoteSlice, batches: list[ShareBatch], first: int, last: int) -> LogSlice | RemoteSlice:
    """Returns the batches that contain any offset from `first` to `last`."""
    wanted = [b for b in batches if b.last_offset >= first and b.base_offset <= last]
    start, end = wanted[0], wanted[-1]
    end_position = end.position + end.size
    if isinstance(source, RemoteSlice):
        return RemoteSlice(source.data[start.position : end_position])
    return LogSlice(
        source.file,
        start.position,
        end_position - start.position,
        start.base_offset,
        end.last_offset + 1,
        source.segment_base_offset,
    )


def aborted_ranges(entries: Iterable[AbortedTransaction], batches: list[ShareBatch]) -> list[tuple[int, int]]:
    """Returns the first and last offset of batches of aborted transactions, without their markers, which hold no
    records. `entries`: the aborted transactions of at least these batches.
    """
    # A transaction whose marker is before the batches would take in later ones of its producer.
    first = batches[0].base_offset
    begins = sorted((entry.first_offset, entry.producer_id) for entry in entries if entry.last_offset >= first)
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
