"""The port through which partitions, Fetch and ListOffsets reach tiered storage (KIP-405).

Only where tiered storage is enabled, there is a port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ...storage.segments.aborted import AbortedTransaction
    from ...storage.segments.timestamps import TimestampedOffset
    from ..runtime.lent_memory import Borrower
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

    def throttled_ms(self) -> int:
        """Returns for how long the quota of reads allows none; 0: it does. A fetch asks before it begins a read."""

    def fetch_throttled(self, wait_ms: int) -> None:
        """Counts the time that a fetch waits for the quota of reads."""

    def lent_to(self, connection: Borrower) -> None:
        """Notes that a response with the result of a read is given to a connection: it has the memory until it is sent."""

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
