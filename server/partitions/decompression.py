"""Decompresses produced batches: small ones directly on the event loop, others on a thread, both in bounded memory.

A batch of a few kilobytes may hold hundreds of megabytes. The loop decompresses into a buffer of a megabyte that it
keeps, and hands a batch that does not fit to a thread. A thread keeps a buffer as well, for batches of the usual
size. It decompresses a larger one into a memory mapping, whose pages are allocated as they are written and return
to the system when it is closed. Decompression releases the interpreter's lock.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...protocol.records.compression import MAX_DECOMPRESSED_BYTES, decompress_into, unpack
from ...protocol.records.errors import TooLargeDecompressed
from ...protocol.records.walk import WALKED_AT_ONCE_RECORDS
from ...storage.segments.timestamps import DECOMPRESSED_AT_ONCE_BYTES, OPENED_AT_ONCE_BYTES
from ..runtime.thread_pools import CPU_THREADS

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.records.compression import Compression

#: The total decompressed size of all batches on threads: one of the largest on each.
DECOMPRESSED_IN_FLIGHT_BYTES = CPU_THREADS * MAX_DECOMPRESSED_BYTES
#  The buffer that each thread keeps: twice the largest batch of a producer with default settings. A mapping's fresh pages
#  cost 0.3 to 0.5 s of the kernel's CPU for a gigabyte.
KEPT_BYTES = 2 << 20
#: The expected decompressed size of a batch, as a multiple of its size: a second attempt costs less than a reservation
#: of the whole budget for each batch.
_EXPECTED_RATIO = 16


class OpenedAtOnce(threading.local):
    """The work that the loop of this thread does during one request; each request has its own time."""

    def __init__(self) -> None:
        self.budget = InlineBudget()

    def takes(self, records: int, now_ms: int) -> bool:
        """Returns whether the loop may walk this many more records."""
        budget = self.budget.of_request(now_ms)
        if not 0 < records <= budget.records_left:
            return False
        budget.records_left -= records
        return True

    def decompress(self, codec: int, packed: Buffer, records: int, now_ms: int) -> Buffer | None:
        """Returns the payload, valid until the next call; None when a thread must do the work. Raises CorruptBatch."""
        if len(packed) > OPENED_AT_ONCE_BYTES or not self.takes(records, now_ms):
            return None
        return self.budget.decompress(codec, packed)


class InlineBudget:
    """The rest of that work, and the memory for it."""

    __slots__ = ("bytes_left", "records_left", "request_ms", "scratch")

    def __init__(self) -> None:
        self.request_ms = -1
        self.records_left = self.bytes_left = 0
        #: Made for the first request: other threads need none.
        self.scratch = memoryview(b"")

    def of_request(self, now_ms: int) -> InlineBudget:
        if now_ms != self.request_ms:
            self.begin(now_ms)
        return self

    def begin(self, now_ms: int) -> None:
        self.request_ms = now_ms
        self.records_left = WALKED_AT_ONCE_RECORDS
        self.bytes_left = DECOMPRESSED_AT_ONCE_BYTES
        if not self.scratch:
            self.scratch = memoryview(bytearray(DECOMPRESSED_AT_ONCE_BYTES))

    def decompress(self, codec: int, packed: Buffer) -> Buffer | None:
        if self.bytes_left <= 0:
            return None
        try:
            payload = unpack(codec, packed, self.scratch)
        except TooLargeDecompressed:
            self.bytes_left = 0
            return None
        self.bytes_left -= len(payload)
        return payload


class MemoryBudget:
    """The bytes that threads may use together. A thread that requests more than is left waits until others release
    theirs.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        assert size <= self.total, "a reservation must not exceed the total"
        with self._changed:
            self._changed.wait_for(lambda: self.used + size <= self.total)
            self.used += size
        try:
            yield
        finally:
            with self._changed:
                self.used -= size
                self._changed.notify_all()


class _Kept(threading.local):
    """A thread's buffer."""

    def __init__(self) -> None:
        self.room = memoryview(bytearray(KEPT_BYTES))


_KEPT = _Kept()


@contextmanager
def decompressed(codec: Compression, packed: Buffer, budget: MemoryBudget) -> Iterator[memoryview]:
    """Yields the payload on a thread, in the buffer that it keeps, or in memory that returns to the system afterwards.

    Raises TooLargeDecompressed when it takes more than MAX_DECOMPRESSED_BYTES, CorruptBatch.
    """
    kept = _KEPT.room
    try:
        made = decompress_into(codec, packed, kept)
    except TooLargeDecompressed:
        pass
    else:
        yield kept[:made]
        return
    expected = max(2 * KEPT_BYTES, len(packed) * _EXPECTED_RATIO)
    most = min(MAX_DECOMPRESSED_BYTES, budget.total)
    for size in (min(expected, most), most):
        with budget.reserve(size), mmap.mmap(-1, size) as room:
            try:
                made = decompress_into(codec, packed, room)
            except TooLargeDecompressed:
                if size == most:
                    raise
                continue
            # Views must be released before the mapping is closed.
            with memoryview(room) as whole, whole[:made] as payload:
                yield payload
            return


AT_ONCE = OpenedAtOnce()
BUDGET = MemoryBudget(DECOMPRESSED_IN_FLIGHT_BYTES)
