"""The partitions of one Fetch, of a session or without one."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.session_epochs import FINAL_EPOCH
from .topic_counts import TopicCounts

if TYPE_CHECKING:
    from ..runtime.sliced_work import Steps
    from .fetch_session import FetchSession
    from .fetched_partition import FetchedPartition, PartitionKey, Topic

#: Partitions that a session may name though they are not here, even where it names fewer that are: topics that were deleted,
#: or that this broker does not know yet.
ABSENT_PARTITIONS = 10

#: Partitions that are counted in one step.
_COUNTED_AT_ONCE = 1000


class FetchContext:
    """The partitions that a request fetches. `session` is None without one; `opens_session`: the response may open one;
    `absent`: how many of the partitions are not here, counted for a session to be opened. `topic_counts`: the number of
    partitions of each topic, where `partitions` has none because they are encoded.
    """

    __slots__ = (
        "_topic_counts",
        "absent",
        "denied",
        "epoch",
        "opens_session",
        "partitions",
        "session",
        "uses_topic_ids",
    )

    def __init__(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        session: FetchSession | None = None,
        *,
        opens_session: bool = False,
        uses_topic_ids: bool = False,
        absent: int = 0,
        topic_counts: TopicCounts | None = None,
    ) -> None:
        self.partitions = partitions
        self._topic_counts = topic_counts
        self.absent = absent
        #: The topics that the client may not read, where that was decided in slices.
        self.denied: Set[Topic] | None = None
        self.session = session
        self.opens_session = opens_session
        self.uses_topic_ids = uses_topic_ids
        #: The epoch that the session must still have when the response is made: else another request overtook this one.
        self.epoch = session.epoch if session is not None else FINAL_EPOCH

    def topics_in_steps(self) -> Steps[TopicCounts]:
        """Counts the partitions of each topic, some in each step. A session counts them when it has others."""
        session = self.session
        known = session.topics if session is not None and session.topics is not None else self._topic_counts
        if known is not None:
            return known
        counts = TopicCounts()
        # Those of a session may change between two steps.
        keys = iter(self.partitions if session is None else list(self.partitions))
        while some := list(islice(keys, _COUNTED_AT_ONCE)):
            for topic, _ in some:
                counts.add(topic)
            yield
        if session is not None:
            session.topics = counts
        return counts


def names_too_many_absent(named: FetchContext | FetchSession) -> bool:
    """Returns True if more of the partitions are absent than ABSENT_PARTITIONS, and more than are hosted."""
    return named.absent > max(ABSENT_PARTITIONS, len(named.partitions) - named.absent)
