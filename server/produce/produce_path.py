"""The parts of a broker that its Produce requests use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..controller.leaders import Leaders
    from ..partitions.parked_requests import Deadlines
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock


class ProducePath:
    """The parts of a broker that its Produce requests use."""

    __slots__ = ("clock", "deadlines", "leaders", "metadata_client_ids", "partitions")

    def __init__(
        self,
        clock: Clock,
        deadlines: Deadlines,
        partitions: Partitions,
        leaders: Leaders,
        metadata_client_ids: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """`metadata_client_ids`: the client ids that may write to `__remote_log_metadata`."""
        self.metadata_client_ids = metadata_client_ids
        self.clock = clock
        self.deadlines = deadlines
        self.partitions = partitions
        self.leaders = leaders
