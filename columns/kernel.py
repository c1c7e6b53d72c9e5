"""The loops over the bytes of record batches, compiled (loops.py) where there is work for it.

numba takes half a second to import, and the plan of a query reads some headers only.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

from .layout import END_OF_BUFFER, NO_BATCH, OUT_OF_ORDER, ROWS_FULL

_LOOPS = f"{__package__}.loops"
#: Bytes that have some hundred headers at most.
_FEW_BYTES = 64 << 10
_HEADER = struct.Struct(">qiibihiqqqhii")
_OVERHEAD = 12
_MAGIC = 2
_MOST_OFFSET = 0x7FFFFFFF00000000


def walk_headers(
    data: Any, start: int, stop: int, file_position: int, least_offset: int, whole: bool, rows: Any
) -> tuple[int, int, int]:
    """Reads the headers of the batches of `data` from `start` on. Returns (rows, position after the last one, result).

    `file_position`: of data[0]; rows have positions in the file, the result has one in `data`. `whole`: only batches that
    end in `data` count; without it the last one may end behind it, and so may the position.
    """
    if stop - start <= _FEW_BYTES and _LOOPS not in sys.modules:
        return walk_few_headers(data, start, stop, file_position, least_offset, whole, rows)
    from . import loops

    return loops.walk_headers(data, start, stop, file_position, least_offset, whole, rows)  # type: ignore[no-any-return]


def walk_few_headers(
    data: Any, start: int, stop: int, file_position: int, least_offset: int, whole: bool, rows: Any
) -> tuple[int, int, int]:
    """Does what `walk_headers` does, without compiled code."""
    position, count, expected = start, 0, least_offset
    while True:
        if stop - position < _HEADER.size:
            return count, position, END_OF_BUFFER
        if count >= len(rows):
            return count, position, ROWS_FULL
        (
            base_offset, length, epoch, magic, crc, attributes, delta, base_timestamp, max_timestamp, producer_id, _, _,
            records,
        ) = _HEADER.unpack_from(data, position)  # fmt: skip
        size = length + _OVERHEAD
        if magic != _MAGIC or size < _HEADER.size:
            return count, position, NO_BATCH
        if base_offset < expected or delta < 0 or base_offset > _MOST_OFFSET or records < 0:
            return count, position, OUT_OF_ORDER
        if whole and size > stop - position:
            return count, position, END_OF_BUFFER
        rows[count] = (
            file_position + position, size, base_offset, delta, base_timestamp, max_timestamp, producer_id,
            attributes & 0xFFFF, records, crc & 0xFFFFFFFF, epoch,
        )  # fmt: skip
        expected = base_offset + delta + 1
        count += 1
        position += size


def load() -> None:
    """Imports the compiled loops, for a process that has time at its start and work for them later."""
    from . import loops  # noqa: F401


def decode_records(*given: Any) -> Any:
    """Decodes records as `loops.decode_records` does."""
    from . import loops

    return loops.decode_records(*given)
