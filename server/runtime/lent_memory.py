"""Memory that a part of the broker lends to responses, and gets back when the last one that has it is sent or dropped.

A response waits in its connection for as long as the peer does not read. Only the end of the last reference shows that its
bytes are free. They are a memory mapping of their own, so that they go back to the system at that moment, too: freed memory
of the heap stays with the process.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Protocol


class LentMemory(mmap.mmap):
    """A copy of bytes. `given_back` is called with their size, on the thread that has dropped the last reference."""

    given_back: Callable[[int], object] | None = None

    @classmethod
    def of(cls, data: memoryview | bytes) -> memoryview:
        """Returns a view of a copy of `data`, which is not empty."""
        made = cls(-1, len(data))
        made[:] = data
        return memoryview(made).toreadonly()

    def __del__(self) -> None:
        if self.given_back is not None:
            self.given_back(len(self))


def is_lent(data: object) -> bool:
    """Returns whether `data` is a view of lent memory: a copy of it would not count."""
    return type(data) is memoryview and type(data.obj) is LentMemory


class Borrower(Protocol):
    """The connection of a response with lent memory."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that wait for the peer."""

    @property
    def stuck_bytes(self) -> int:
        """Bytes of responses that wait for those of earlier requests."""

    @property
    def taken_bytes(self) -> int:
        """Bytes of responses that the peer has taken so far."""

    def drop_for(self, reason: str) -> None:
        """Ends the connection, with all that waits for the peer."""
