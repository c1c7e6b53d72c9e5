"""The parts of a broker that its fetches use. They are made once: a fetch looks nothing up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cluster.leaders import Leaders
    from ..log_maintenance.scrubber import Scrubber
    from ..partitions.parked_fetch import FetchWaits
    from ..partitions.partitions import Partitions
    from ..replica_fetch.replication import Replication
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .fetch_authorization import FetchAuthorization
    from .fetch_sessions import FetchSessions
    from .replica_selector import ReplicaSelector


class FetchPath:
    """The parts that read partitions and answer.

    `max_bytes`: fetch.max.bytes. `replication` has the quota of followers. `authorization`: None without an authorizer.
    """

    __slots__ = (
        "authorization", "clock", "leaders", "max_bytes", "partitions", "replication", "scrubber", "selector", "sessions",
        "waits",
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
        authorization: FetchAuthorization | None = None,
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
        self.authorization = authorization
