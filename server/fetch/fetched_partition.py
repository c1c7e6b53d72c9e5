"""A partition of a Fetch: the client's request, and the offsets that its last response had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchPartition, FetchRequest

#: The topic's name or its id.
Topic = str | bytes
#: The topic, and the partition's index.
PartitionKey = tuple[Any, int]


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
        self.fetch_offset = asked.fetch_offset  # what `ask` sets: a call less for each partition
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def ask(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset


def asked_partitions(request: FetchRequest, uses_topic_ids: bool) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    """The partitions that a request names. It does not keep them: to free very many at once takes long."""
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        partitions, topic.partitions = topic.partitions, []
        if not isinstance(partitions, list):  # they are encoded
            yield from (((name, asked.partition), asked) for asked in partitions)
            continue
        for number, asked in enumerate(partitions):
            partitions[number] = None  # type: ignore[call-overload]
            yield (name, asked.partition), asked
