"""The parts of a broker that its fetches use. They are made once: a fetch looks nothing up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cluster.leaders import Leaders
    from ..log_maintenance.scrubber import Scrubber
    from ..partitions.partitions import Partitions
    from ..replica_fetch.replication import Replication
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from ..runtime.thread_pools import ThreadPool
    from ..runtime.waiters import Deadlines, Wakeups
    from .fetch_sessions import FetchSessions
    from .replica_selector import ReplicaSelector


class FetchWaits:
    """The parts that a fetch waits for: its deadline, a change of a partition, a thread that reads from the disk."""

    __slots__ = ("deadlines", "disk", "wakeups")

    def __init__(self, deadlines: Deadlines, wakeups: Wakeups, disk: ThreadPool) -> None:
        self.deadlines = deadlines
        self.wakeups = wakeups
        #: Reads what is not in the page cache.
        self.disk = disk


class FetchPath:
    """The parts that read partitions and answer.

    `max_bytes`: fetch.max.bytes. `replication` has the quota of followers.
    """

    __slots__ = (
        "clock", "leaders", "max_bytes", "partitions", "replication", "scrubber", "selector", "sessions", "waits",
    )  # fmt: skip

    def __init__(
        self,
        max_bytes: int,
        clock: Clock,
        waits: FetchWaits,
        partitions: Partitions,
        scrubber: Scrubber,
        sessions: FetchSessions,
        leaders: Leaders,
        selector: ReplicaSelector,
        replication: Lazy[Replication],
    ) -> None:
        self.max_bytes = max_bytes
        self.clock = clock
        self.waits = waits
        self.partitions = partitions
        self.scrubber = scrubber
        self.sessions = sessions
        self.leaders = leaders
        self.selector = selector
        self.replication = replication
