"""The bytes that one turn of the loop moves between sockets, buffers and files, for all connections together.

To copy a megabyte holds the loop for some 0.3 ms. One consumer that catches up, or one record of 50 MB, gets a whole
turn; twenty of them share it, so that a small request between them waits no longer. A connection that finds the bytes
of a turn used up waits in a queue, and other events are served before its turn comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: Smaller turns move no more bytes in a second less: each turn of the loop costs some 50 us.
BYTES_PER_TURN = 1 << 20
#: A transfer that has begun moves at least this: less is not worth its system call.
LEAST_BYTES = 64 << 10
#: A system call counts as this in the bytes of a turn, beside those it moves: responses may have thousands of short pieces.
CALL_BYTES = 4 << 10


class TransferTurns:
    """The budget of one loop. `left`: bytes that may still be moved in this turn, none when it is 0 or less."""

    __slots__ = ("_is_scheduled", "_waiting", "left")

    def __init__(self) -> None:
        self.left = BYTES_PER_TURN
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def spend(self, count: int) -> bool:
        """Notes that `count` bytes were moved. Returns whether more may be moved in this turn."""
        self.left -= count
        if not self._is_scheduled:
            self._schedule()
        return self.left > 0

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` in a later turn, after those that wait already."""
        self._waiting.append(resume)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_scheduled = False
        self.left = BYTES_PER_TURN
        waiting = self._waiting
        for _ in range(len(waiting)):  # those that wait again have had their turn
            if self.left <= 0:
                break
            waiting.popleft()()
        if waiting and not self._is_scheduled:
            self._schedule()
