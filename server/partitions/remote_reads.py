"""The remote reads of a Fetch: records before the local log start, which only the store has.

All partitions of a fetch are read at once. The fetch waits for them as it waits for the disk, up to
`remote.fetch.max.wait.ms`; what has not come by then is left out, and the next fetch gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hosted_partition import HostedPartition
    from .remote_port import RemotePort, RemoteRecords

#: A topic's name or id, and a partition.
Key = tuple[Any, int]


class RemoteSlice:
    """Batches of the store, in memory: what a fetch needs of a `LogSlice`."""

    __slots__ = ("data", "size")

    def __init__(self, data: memoryview | bytes) -> None:
        self.data = data
        self.size = len(data)


class RemoteReads:
    """The remote reads of one fetch, by partition. `resume` is called once, when they have ended or time is over."""

    def __init__(self, port: RemotePort, resume: Callable[[], object]) -> None:
        self._port = port
        self._resume = resume
        self._results: dict[Key, RemoteRecords | None] = {}
        self._withdrawals: dict[Key, Callable[[], object]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.is_pending = False
        #: For how long the quota allows no read, at the last look; 0: nothing was left out for it.
        self.throttled_ms = 0
        self._retry: asyncio.TimerHandle | None = None

    def result(
        self, key: Key, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool
    ) -> RemoteRecords | None:
        """Returns the result of a partition; None while it is being read, and while the quota allows no read."""
        if key not in self._results:
            finished = self._port.take_finished(hosted, offset, max_bytes, isolated=isolated)
            if finished is None and (wait_ms := self._port.throttled_ms()):
                self.throttled_ms = wait_ms
                return None
            self._results[key] = finished
            if finished is not None:
                return finished
            self.is_pending = True
            done = partial(self._done, key)
            self._withdrawals[key] = self._port.read(hosted, offset, max_bytes, isolated=isolated, done=done)
        return self._results[key]

    def wait(self) -> None:
        """Waits for the reads that have begun."""
        wait_s = self._port.fetch_max_wait_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._end)

    def retry_when_allowed(self, retry: Callable[[], object]) -> None:
        """Calls `retry` once the quota may allow reads again, unless `release` comes before."""
        if self.throttled_ms and self._retry is None:
            self._port.fetch_throttled(self.throttled_ms)
            self._retry = asyncio.get_running_loop().call_later(self.throttled_ms / 1000, self._try_again, retry)

    def _try_again(self, retry: Callable[[], object]) -> None:
        self._retry, self.throttled_ms = None, 0
        retry()

    def release(self) -> None:
        """Drops all results, whose memory others may wait for: the fetch has ended."""
        if self._retry is not None:
            self._retry.cancel()
        self._results.clear()

    def _done(self, key: Key, records: RemoteRecords) -> None:
        self._withdrawals.pop(key, None)
        self._results[key] = records
        if not self._withdrawals and self._timer is not None:
            self._end()

    def _end(self) -> None:
        """Has the fetch answered, without the reads that have not ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._withdrawals:
            self._port.fetch_expired()
        for withdraw in self._withdrawals.values():
            withdraw()
        self._withdrawals.clear()
        self.is_pending = False
        self._resume()
