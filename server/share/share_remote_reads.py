"""The remote reads of a ShareFetch: records before the local log start, which only the store has (KIP-405, KIP-932).

A share fetch waits for the store beside the logs: records of other partitions are sent at once, and what the store returns
later is kept for the next fetch. A fetch whose time is over, and that has no records, waits on until
`remote.fetch.max.wait.ms` are over, as in Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..network.call import ClientConnection
    from ..partitions.remote_port import RemotePort, RemoteRecords
    from .led_share_partition import LedSharePartition


class ShareRemoteReads:
    """The remote reads of one share fetch, at most one at a time for each share partition. `resume` is called as each one
    ends, and when the time is over. `wait_ms`: the fetch's own time.
    """

    def __init__(self, port: RemotePort, resume: Callable[[], object], wait_ms: int) -> None:
        self._port = port
        self._resume = resume
        self._longer_s = (port.fetch_max_wait_ms - wait_ms) / 1000
        #: The offset of each read, and its result; None while it goes on.
        self._reads: dict[LedSharePartition, tuple[int, RemoteRecords | None]] = {}
        self._withdrawals: dict[LedSharePartition, Callable[[], object]] = {}
        self._timer: asyncio.TimerHandle | None = None
        #: Set while the quota of reads allows none.
        self._retry: asyncio.TimerHandle | None = None
        self._is_over = False

    def result(self, led: LedSharePartition, offset: int, max_bytes: int, *, isolated: bool) -> RemoteRecords | None:
        """Returns records from an offset on, perhaps with some before it; None while they are read, and after the time."""
        begun, found = self._reads.get(led, (-1, None))
        # Another member may have acquired the first ones that were read.
        if begun == offset or (found is not None and begun < offset < found.next_offset and len(found.data)):
            return found
        if self._is_over:
            return None
        self._withdraw(led)
        hosted = led.hosted
        finished = self._port.take_finished(hosted, offset, max_bytes, isolated=isolated)
        if finished is None and (wait_ms := self._port.throttled_ms()):
            self._reads.pop(led, None)
            if self._retry is None:
                self._port.fetch_throttled(wait_ms)
                self._retry = asyncio.get_running_loop().call_later(wait_ms / 1000, self._try_again)
            return None
        self._reads[led] = offset, finished
        if finished is None:
            done = partial(self._done, led, offset)
            self._withdrawals[led] = self._port.read(hosted, offset, max_bytes, isolated=isolated, done=done)
        return finished

    def wait_longer(self) -> bool:
        """Returns whether reads go on that the fetch waits for, though its own time is over. The first call begins the
        wait.
        """
        if self._longer_s <= 0:
            return False
        if self._withdrawals and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._longer_s, self._end)
        return bool(self._withdrawals)

    def withdraw(self) -> None:
        """Ends the waits: the store is still read, and the next fetch gets the result."""
        self._is_over = True
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        for led in list(self._withdrawals):
            self._withdraw(led)

    def release(self, connection: ClientConnection) -> None:
        """Ends the waits, and drops all results: those of the response are in `connection` now."""
        self.withdraw()
        if any(found is not None and len(found.data) for _, found in self._reads.values()):
            self._port.lent_to(connection)
        self._reads.clear()

    def _try_again(self) -> None:
        self._retry = None
        self._resume()

    def _withdraw(self, led: LedSharePartition) -> None:
        withdraw = self._withdrawals.pop(led, None)
        if withdraw is not None:
            withdraw()

    def _done(self, led: LedSharePartition, offset: int, records: RemoteRecords) -> None:
        self._withdrawals.pop(led, None)
        self._reads[led] = offset, records
        self._resume()

    def _end(self) -> None:
        self.withdraw()
        self._resume()
