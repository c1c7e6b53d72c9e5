"""A fetch session (KIP-227), its partitions, and the partitions of one request. All sessions: `fetch_sessions.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ..runtime.sliced_work import Steps

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchPartition, FetchRequest
    from ..network.call import ClientConnection
    from ..partitions.hosted_partition import HostedPartition

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
#: Partitions that a session may name though they are not here, even where it names fewer that are: topics that were deleted,
#: or that this broker does not know yet.
ABSENT_PARTITIONS = 10

#: The topic's name or its id, and the partition's index.
PartitionKey = tuple[Any, int]
#: Whether this broker hosts a partition; called with its key, and whether the key has the topic's id.
IsHosted = Callable[[PartitionKey, bool], bool]


class FetchedPartition:
    """A partition of a fetch: the client's request, and the offsets that its last response had."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
    )

    def __init__(self, key: PartitionKey, asked: FetchPartition) -> None:
        self.key = key
        #: No response was sent yet: the first one has all fields.
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset


class ParkedFollowerFetch(Protocol):
    """A follower's fetch that waits for changes of partitions in its session."""

    def on_bytes_available(self, size: int) -> None:
        """Adds written bytes of a partition to those that the fetch waits for."""

    def on_state_changed(self) -> None:
        """Has the fetch inspect its partitions again."""

    def watch_too(self, hosted: HostedPartition) -> None:
        """Waits for one more partition."""


class FetchSession:
    __slots__ = (
        "absent",
        "active_partitions",
        "connection",
        "counted",
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "last_used_ms",
        "parked",
        "partitions",
        "replica_epoch",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, FetchedPartition],
        now_ms: int,
        *,
        uses_topic_ids: bool,
        is_follower: bool,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        #: How many of them were not here when they were named.
        self.absent = 0
        #: As many as the sum over all sessions has for this one.
        self.counted = len(partitions)
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.created_ms = self.last_used_ms = now_ms
        #: In a follower's session: the partitions to inspect, the fetch that waits, and the epoch of the broker that asks.
        self.active_partitions: dict[PartitionKey, FetchedPartition] = dict(partitions) if is_follower else {}
        self.parked: ParkedFollowerFetch | None = None
        self.replica_epoch = -1
        #: The connection that used it last.
        self.connection: ClientConnection | None = None
        #: The epoch that the next request must have.
        self.epoch = INITIAL_EPOCH + 1

    def update(self, request: FetchRequest, is_hosted: IsHosted) -> Steps[None]:
        partitions = self.partitions
        for key, asked in asked_partitions(request, self.uses_topic_ids):
            yield
            known = partitions.get(key)
            if known is None:
                known = partitions[key] = FetchedPartition(key, asked)
                self.absent += not is_hosted(key, self.uses_topic_ids)
            else:
                known.ask(asked)
            if self.is_follower:
                self.active_partitions[key] = known
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                yield
                partitions.pop((name, index), None)
                self.active_partitions.pop((name, index), None)

    def gave_data(self, partition: FetchedPartition) -> None:
        """Moves a partition behind all others, because it was given data."""
        for kept in (self.partitions, self.active_partitions):
            if kept.get(partition.key) is partition:
                del kept[partition.key]
                kept[partition.key] = partition

    def weight(self) -> tuple[bool, int, int]:
        """The order of eviction: a session may be evicted for one of greater weight."""
        return self.is_follower, len(self.partitions), self.id


class FetchContext:
    """The partitions that a request fetches. `session` is None without one; `opens_session`: the response may open one;
    `absent`: how many of the partitions are not here, counted for a session to be opened.
    """

    __slots__ = ("absent", "epoch", "opens_session", "partitions", "session", "uses_topic_ids")

    def __init__(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        session: FetchSession | None = None,
        *,
        opens_session: bool = False,
        uses_topic_ids: bool = False,
        absent: int = 0,
    ) -> None:
        self.partitions = partitions
        self.absent = absent
        self.session = session
        self.opens_session = opens_session
        self.uses_topic_ids = uses_topic_ids
        #: The epoch that the session must still have when the response is made: else another request overtook this one.
        self.epoch = session.epoch if session is not None else FINAL_EPOCH


def asked_partitions(request: FetchRequest, uses_topic_ids: bool) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    """The partitions that a request names. It does not keep them: to free very many at once takes long."""
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        partitions, topic.partitions = topic.partitions, []
        for number, asked in enumerate(partitions):
            partitions[number] = None  # type: ignore[call-overload]
            yield (name, asked.partition), asked


def names_too_many_absent(named: FetchContext | FetchSession) -> bool:
    """Returns True if more of the partitions are absent than ABSENT_PARTITIONS, and more than are hosted."""
    return named.absent > max(ABSENT_PARTITIONS, len(named.partitions) - named.absent)
