"""The memory of a node for records of the remote store: of reads under way, of responses that are not sent, and of results
that no request has taken yet (`odradek.remote.fetch.buffer.bytes`).

A read begins when the budget has room for it, in the order of the requests. Peers that do not read their responses hold
memory that others wait for: while reads wait, the connection of such a peer is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ..runtime.lent_memory import Borrower, LentMemory

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig

log = logging.getLogger("odradek.remote")

BUFFER_BYTES: Final = "odradek.remote.fetch.buffer.bytes"
#: So many reads have room at least: one takes this share of the budget at most, but for a batch that is larger.
LEAST_READS = 8
#: While reads wait, a peer takes at least so many bytes of its responses in each such time, or is dropped.
CHECK_INTERVAL_S = 2.0
LEAST_TAKEN_BYTES = 64 << 10
#: While reads wait, a response waits no longer for those of earlier requests: clients wait as long (request.timeout.ms).
MOST_STUCK_S = 30.0


class _Taking(NamedTuple):
    """A connection with a response of lent memory, at a check. `stuck_checks`: in how many checks in succession its
    responses waited for those of earlier requests only.
    """

    taken_bytes: int
    unsent_bytes: int
    stuck_checks: int

    @property
    def is_idle(self) -> bool:
        return not self.unsent_bytes and not self.stuck_checks


class ReadBudget:
    """Calls are for the loop. `make_room` drops results that no request has taken; it returns whether it dropped some."""

    def __init__(self, config: BrokerConfig, make_room: Callable[[], bool]) -> None:
        self._config = config
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        #: Bytes that are reserved for reads, or lent.
        self.used_bytes = 0
        #: The reads that wait for room: size, and what begins each.
        self._waiting: dict[Hashable, tuple[int, Callable[[], object]]] = {}
        #: Connections with responses of lent memory, each as the last check has seen it.
        self._borrowers: dict[Borrower, _Taking | None] = {}
        self._has_waited = False
        self._check: asyncio.TimerHandle | None = None
        #: Connections that were dropped.
        self.dropped = 0

    @property
    def most_bytes(self) -> int:
        return self._config.get(BUFFER_BYTES)

    @property
    def most_read_bytes(self) -> int:
        """The most that one read asks for."""
        return self.most_bytes // LEAST_READS

    @property
    def waiting(self) -> int:
        """The number of reads that wait."""
        return len(self._waiting)

    # Reads.

    def reserve(self, key: Hashable, size: int, begin: Callable[[], object]) -> None:
        """Calls `begin`, now or later, when there is room for a read of `size` bytes."""
        size = min(size, self.most_bytes)
        if not self._waiting and self._fits(size):
            self.used_bytes += size
            begin()
        else:
            self._has_waited = True
            self._waiting[key] = size, begin
            self._begin_waiting()

    def withdraw(self, key: Hashable) -> bool:
        """Forgets a read that waits. Returns whether it did."""
        return self._waiting.pop(key, None) is not None

    def lend(self, reserved: int, data: memoryview | bytes) -> None:
        """A read has ended: its result takes the place of what was reserved for it, until the last reference is gone."""
        self.used_bytes -= min(reserved, self.most_bytes)
        if len(data):
            assert type(data) is memoryview and type(data.obj) is LentMemory, "the result of a read is lent memory"
            self.used_bytes += len(data)
            data.obj.given_back = self._given_back
        self._begin_waiting()

    def _fits(self, size: int) -> bool:
        return not self.used_bytes or self.used_bytes + size <= self.most_bytes

    def _given_back(self, size: int) -> None:
        if threading.get_ident() == self._thread:
            self._free(size)
        else:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._free, size)

    def _free(self, size: int) -> None:
        self.used_bytes -= size
        if self._waiting and not self._loop.is_closed():
            self._loop.call_soon(self._begin_waiting)

    def _begin_waiting(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            size, begin = self._waiting[key]
            if not self._fits(size) and not (self._make_room() and self._fits(size)):
                return
            if self._waiting.pop(key, None) is not None:
                self.used_bytes += size
                begin()

    # Peers that do not read.

    def lent_to(self, borrower: Borrower) -> None:
        """Notes that a response with lent memory is given to a connection."""
        seen = self._borrowers.get(borrower)
        if seen is None or seen.is_idle:  # the response is in the making, and may be so at the next check
            self._borrowers[borrower] = None
        if self._check is None:
            self._check = self._loop.call_later(CHECK_INTERVAL_S, self._check_borrowers)

    def _check_borrowers(self) -> None:
        has_waited, self._has_waited = self._has_waited or bool(self._waiting), False
        for borrower, before in list(self._borrowers.items()):
            seen = _seen(borrower, before)
            self._borrowers[borrower] = seen
            if before is None:
                continue
            # Bytes that were unsent at the last check are sent first, before responses that came since then.
            is_slow = seen.taken_bytes - before.taken_bytes < min(LEAST_TAKEN_BYTES, before.unsent_bytes)
            if before.is_idle and seen.is_idle:
                del self._borrowers[borrower]
            elif has_waited and (is_slow or seen.stuck_checks * CHECK_INTERVAL_S >= MOST_STUCK_S):
                del self._borrowers[borrower]
                self.dropped += 1
                borrower.drop_for("it does not take records of the remote store, whose memory others wait for")
        self._check = None
        if self._borrowers:
            self._check = self._loop.call_later(CHECK_INTERVAL_S, self._check_borrowers)

    def stop(self) -> None:
        self._waiting.clear()
        self._borrowers.clear()
        if self._check is not None:
            self._check.cancel()
            self._check = None


def _seen(borrower: Borrower, before: _Taking | None) -> _Taking:
    unsent = borrower.unsent_bytes
    is_stuck = not unsent and borrower.stuck_bytes > 0
    stuck_checks = 1 if before is None else before.stuck_checks + 1
    return _Taking(borrower.taken_bytes, unsent, stuck_checks if is_stuck else 0)
