"""Finding the next whole batch behind bytes that are none.

A batch counts as the next one when its header is plausible, its offsets go on from those before the bad bytes and
end before those that follow the file, a broker has written it (it has a leader epoch), and its CRC is right. So the
bytes of a batch inside a record's value are not taken for it: clients have no leader epoch to put there.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING

from ...protocol.records.batch import HEADER_BYTES, MAGIC, check_crc, read_header
from ...protocol.records.errors import BatchError
from ..files.descriptors import open_fd

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader

CHUNK_BYTES = 1 << 20
_ZEROS = bytes(CHUNK_BYTES)
#: Bytes whose CRC is computed during one search, in multiples of the file's size: bytes that are made to look like many
#: large headers end the search instead of taking hours.
_MOST_CHECKED = 8
_HIGH_HALF = struct.Struct(">i")


class _Search:
    def __init__(self, fd: int, size: int, next_offset: int, limit_offset: int, epoch: int) -> None:
        self._fd = fd
        self._size = size
        self._next_offset = next_offset
        self._limit_offset = limit_offset
        self._epoch = epoch
        self._budget = _MOST_CHECKED * max(size, CHUNK_BYTES)

    def batch_at(self, position: int) -> BatchHeader | None:
        """The header of the whole batch that starts there and goes on."""
        if not 0 <= position <= self._size - HEADER_BYTES:
            return None
        try:
            header = read_header(os.pread(self._fd, HEADER_BYTES, position))
            if not self._is_plausible(header, position) or self._budget < header.size:
                return None
            self._budget -= header.size
            check_crc(os.pread(self._fd, header.size, position), 0, header)
        except BatchError:
            return None
        return header

    def _is_plausible(self, header: BatchHeader, position: int) -> bool:
        return (
            header.magic == MAGIC
            and HEADER_BYTES <= header.size <= self._size - position
            and header.last_offset_delta >= 0
            and header.leader_epoch >= max(self._epoch, 0)
            and self._next_offset <= header.base_offset
            and header.next_offset <= self._limit_offset
        )

    def first_after(self, position: int) -> tuple[int, BatchHeader] | None:
        highs = {_HIGH_HALF.pack(offset >> 32) for offset in (self._next_offset, self._limit_offset)}
        pattern = re.compile(b"(?=(?:" + b"|".join(map(re.escape, highs)) + rb").{4}[\x00-\x7f].{7}\x02)", re.DOTALL)
        while position <= self._size - HEADER_BYTES:
            chunk = os.pread(self._fd, CHUNK_BYTES, position)
            if chunk == _ZEROS[: len(chunk)]:
                position += len(chunk)
                continue
            for match in pattern.finditer(chunk):
                header = self.batch_at(position + match.start())
                if header is not None:
                    return position + match.start(), header
            position += len(chunk) - HEADER_BYTES + 1
        return None


def next_whole_batch(
    path: str, size: int, bad_at: int, next_offset: int, limit_offset: int, leader_epoch: int
) -> tuple[int, BatchHeader] | None:
    """(position, header) of the first whole batch behind the bad bytes at `bad_at`; None when none follows.

    `next_offset`: of the last good batch before. `limit_offset`: where the next segment begins. `leader_epoch`: of the last
    good batch, or -1.
    """
    fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        search = _Search(fd, size, next_offset, limit_offset, leader_epoch)
        claimed = _claimed_end(fd, bad_at)
        if claimed == size:
            return None  # the last batch, whose records are damaged or not all there
        if claimed is not None:
            header = search.batch_at(claimed)
            if header is not None:
                return claimed, header
        return search.first_after(bad_at + 1)
    finally:
        os.close(fd)


def _claimed_end(fd: int, position: int) -> int | None:
    """Returns the end of the bad batch by its own header."""
    try:
        header = read_header(os.pread(fd, HEADER_BYTES, position))
    except BatchError:
        return None
    return position + header.size
