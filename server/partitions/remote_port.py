"""The port through which partitions, Fetch and ListOffsets reach tiered storage (KIP-405), and the remote reads of a Fetch.

Only where tiered storage is enabled, there is a port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ...storage.segments.index import AbortedTransaction
    from ...storage.segments.segment import TimestampedOffset
    from .hosted_partition import HostedPartition


class RemoteRecords(NamedTuple):
    """The result of a remote read: an error code, or whole batches, from the one that has the offset. Without batches and
    error, the local log has the next ones, from `next_offset` on.
    """

    error: int
    data: memoryview | bytes = b""
    next_offset: int = -1
    aborted: list[AbortedTransaction] | None = None


class RemotePort(Protocol):
    """Calls are for the loop, and none waits. Callbacks come later, on the loop."""

    def read(
        self,
        hosted: HostedPartition,
        offset: int,
        max_bytes: int,
        *,
        isolated: bool,
        done: Callable[[RemoteRecords], None],
    ) -> Callable[[], object]:
        """Reads from an offset before the local log start, at least one batch. Returns what withdraws the callback."""

    def take_finished(
        self, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool
    ) -> RemoteRecords | None:
        """Returns, once, the result of such a read that ended after its callback was withdrawn."""

    @property
    def fetch_max_wait_ms(self) -> int:
        """How long a Fetch waits for its remote reads."""

    def fetch_expired(self) -> None:
        """Counts a Fetch that is answered before its remote reads have ended."""

    def search_expired(self, topic: str) -> None:
        """Counts a partition of a ListOffsets that is answered before the store was searched."""

    def highest_remote_offset(self, hosted: HostedPartition) -> int | None:
        """Returns the last offset in the store, -1 for none; None while that is not known."""

    def find_by_timestamp(
        self, hosted: HostedPartition, timestamp: int, done: Callable[[int, TimestampedOffset | None], None]
    ) -> None:
        """Searches the store for the first record with at least the timestamp: an error code and the record, if any."""

    def delete_local_segments(self, hosted: HostedPartition) -> int:
        """Removes local segments that are copied, and not needed any more; returns their number."""

    def start_follower(self, hosted: HostedPartition, leader_start: int, done: Callable[[int], None]) -> None:
        """Has the log of a follower begin after the store's part, of which the leader has no local segment. `done` gets
        an error code.
        """


# ---- the remote reads of a Fetch: records before the local log start, which only the store has
#
# All partitions of a fetch are read at once. The fetch waits for them as it waits for the disk, up to
# `remote.fetch.max.wait.ms`; what has not come by then is left out, and the next fetch gets it.

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

    def result(
        self, key: Key, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool
    ) -> RemoteRecords | None:
        """Returns the result of a partition; None while it is being read."""
        if key not in self._results:
            finished = self._port.take_finished(hosted, offset, max_bytes, isolated=isolated)
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
