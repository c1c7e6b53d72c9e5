"""The loops over the bytes of record batches, compiled: those of Odradek's compiled kernel (kernel/columns.c).

An installation without the kernel has the loops of numba (loops.py). numba takes a second and more to import, in each
process, and the plan of a query reads some headers only: those are read without it.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

from ..protocol.records.batch import LOG_OVERHEAD, MAGIC
from .layout import END_OF_BUFFER, NO_BATCH, OUT_OF_ORDER, ROWS_FULL

if TYPE_CHECKING:
    from ..protocol.buffer import Buffer
    from .layout import Numbers


try:  # an installation without a compiler lacks it
    from odradek_kernel import decode_records as _decode
    from odradek_kernel import mark_keys as _mark
    from odradek_kernel import may_have_key as _may_have
    from odradek_kernel import walk_headers as _walk
except ImportError:
    _decode = _walk = _mark = _may_have = None

_LOOPS = f"{__package__}.loops"
#: Bytes that have some hundred headers at most.
_FEW_BYTES = 64 << 10
_HEADER = struct.Struct(">qiibihiqqqhii")
_MOST_OFFSET = 0x7FFFFFFF00000000


def walk_headers(
    data: Numbers, start: int, stop: int, file_position: int, least_offset: int, whole: bool, rows: Numbers
) -> tuple[int, int, int]:
    """Reads the headers of the batches of `data` from `start` on. Returns (rows, position after the last one, result).

    `file_position`: of data[0]; rows have positions in the file, the result has one in `data`. `whole`: only batches that
    end in `data` count; without it the last one may end behind it, and so may the position.
    """
    if _walk is not None:
        return _walk(data, start, stop, file_position, least_offset, whole, rows)  # type: ignore[no-any-return]
    if stop - start <= _FEW_BYTES and _LOOPS not in sys.modules:
        return walk_few_headers(data, start, stop, file_position, least_offset, whole, rows)
    from . import loops

    return loops.walk_headers(data, start, stop, file_position, least_offset, whole, rows)  # type: ignore[no-any-return]


def walk_few_headers(
    data: Numbers, start: int, stop: int, file_position: int, least_offset: int, whole: bool, rows: Numbers
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
        size = length + LOG_OVERHEAD
        if magic != MAGIC or size < _HEADER.size:
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
    if _decode is None:
        from . import loops  # noqa: F401


def decode_records(*given: Numbers) -> None:
    """Decodes records as `loops.decode_records` does."""
    if _decode is not None:
        _decode(*given)
        return
    from . import loops

    loops.decode_records(*given)


def has_key_filters() -> bool:
    """Returns whether this installation has the functions of key filters, which only the compiled kernel has."""
    return _mark is not None


def mark_keys(bits: Buffer, ends: Buffer, data: Buffer, validity: Buffer | None) -> None:
    """Adds the keys of an Arrow column, by its buffers, to a Bloom filter. Raises ValueError for ends outside the data."""
    _mark(bits, ends, data, validity)


def may_have_key(bits: Buffer, key: bytes) -> bool:
    """Returns whether a Bloom filter may have a key: False is certain."""
    return bool(_may_have(bits, key))
