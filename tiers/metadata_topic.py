"""The consumption of one partition of `__remote_log_metadata`, as a pure state machine (KIP-405).

A broker follows the metadata partitions of the partitions that it hosts. `fetch_offset` is the next offset to fetch; the
caller fetches records, hands each to `consume`, and then the end of the fetched range to `advance`.

| state of a followed partition | meaning |
|---|---|
| not ready | events that existed when it was followed are not read yet: nothing may be concluded from the cache |
| ready | all of them are read; the cache follows the topic |

A record that is no event is skipped, and kept in `damaged`: no node can have written it, since a batch's CRC is checked
before. So no cache misses anything for it.

A partition that is followed later has the metadata partition read again from its start; what others have read already is
skipped for them.

Of all partitions, followed or not, two things are known: deletions that have begun and not ended (`deletions`), and whether
the store may have something of them (`stored`).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..protocol.buffer import Buffer
from ..protocol.murmur2 import partition_of
from .cache import Applied, RemoteLogMetadataCache
from .events import DamagedMetadata, decode_event
from .segment_metadata import (
    DELETE_PARTITION_FINISHED,
    DELETE_PARTITION_MARKED,
    VALID_PREVIOUS_DELETE_STATES,
    RemoteLogMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

#: Damaged records whose offsets are kept, for the operator: the first ones.
_MOST_DAMAGE = 100
_INT32 = 1 << 32


def metadata_partition(partition: TopicIdPartition, count: int) -> int:
    """Returns the partition of the metadata topic, which has `count`, for the events of a partition.

    Kafka's `RemoteLogMetadataTopicPartitioner`: murmur2 of Java's hash of the halves of the topic's id and the partition.
    """
    most, least = int.from_bytes(partition.topic_id[:8]), int.from_bytes(partition.topic_id[8:])
    hashed = 1
    for value in (least ^ least >> 32, most ^ most >> 32, partition.partition):
        hashed = (31 * hashed + value) % _INT32
    return partition_of(hashed.to_bytes(4), count)


class DamagedRecord(NamedTuple):
    """A record that was skipped."""

    offset: int
    reason: str


class Followed:
    """A partition whose events are read."""

    __slots__ = ("cache", "delete_state", "next_offset", "ready_at")

    def __init__(self, ready_at: int) -> None:
        self.cache = RemoteLogMetadataCache()
        self.delete_state: RemotePartitionDeleteState | None = None
        #: Events below it are in the cache.
        self.next_offset = 0
        #: The partition is ready when all below this offset is read.
        self.ready_at = ready_at

    @property
    def is_ready(self) -> bool:
        return self.next_offset >= self.ready_at


class Deletion(NamedTuple):
    """A partition's deletion that has not ended. `offset` is that of the last event of the partition."""

    broker_id: int
    state: RemotePartitionDeleteState
    offset: int


class MetadataPartition:
    """`followed` are the partitions whose events are read, `damaged` the first records that could not be decoded, and
    `damaged_records` the number of all of them.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.followed: dict[TopicIdPartition, Followed] = {}
        self.deletions: dict[TopicIdPartition, Deletion] = {}
        #: Partitions with events, and no DELETE_PARTITION_FINISHED behind them, by the ids of their topics.
        self.stored: dict[bytes, set[TopicIdPartition]] = {}
        #: Events below it are in `deletions` and in `stored`.
        self.deletions_offset = 0
        self.damaged: deque[DamagedRecord] = deque(maxlen=_MOST_DAMAGE)
        self.damaged_records = 0
        self._seen_damage_up_to = 0
        #: Events of followed partitions that changed nothing, since the start.
        self.ignored_events = 0

    @property
    def may_be_saved(self) -> bool:
        """Returns whether a snapshot can have all that was read: up to one offset for all."""
        return len({self.deletions_offset, *(one.next_offset for one in self.followed.values())}) == 1

    @property
    def fetch_offset(self) -> int:
        """The next offset to fetch."""
        return min((one.next_offset for one in self.followed.values()), default=self.deletions_offset)

    def follow(self, partition: TopicIdPartition, end_offset: int) -> Followed:
        """Begins to read a partition's events. `end_offset`: the present end of the metadata partition."""
        assert end_offset >= 0, f"the metadata partition ends at {end_offset}"
        found = self.followed.get(partition)
        if found is None:
            found = self.followed[partition] = Followed(end_offset)
        return found

    def unfollow(self, partition: TopicIdPartition) -> None:
        self.followed.pop(partition, None)

    def begin_at(self, log_start_offset: int, end_offset: int) -> None:
        """Takes note of where the metadata partition starts and ends, before the first fetch and after a reset.

        A cache misses events if they were removed before it read them, and has too many if the topic was cut below what it
        has read. Such a cache is read again from the start.
        """
        for one in self.followed.values():
            if 0 < one.next_offset < log_start_offset or one.next_offset > end_offset:
                one.cache, one.delete_state, one.next_offset = RemoteLogMetadataCache(), None, 0
            one.next_offset = max(one.next_offset, log_start_offset)
            one.ready_at = end_offset
        if 0 < self.deletions_offset < log_start_offset or self.deletions_offset > end_offset:
            self.deletions, self.stored, self.deletions_offset = {}, {}, 0
        self.deletions_offset = max(self.deletions_offset, log_start_offset)
        self.forget_damage(log_start_offset, end_offset)

    def consume(self, offset: int, value: Buffer | None) -> Applied | None:
        """Applies the record at `offset`. Returns the effect; None for a record that is of no followed partition, is
        already applied, or is damaged.
        """
        try:
            if value is None:
                raise DamagedMetadata("a record without a value")
            event = decode_event(value)
        except DamagedMetadata as error:
            self._note_damage(offset, str(error))
            return None
        if offset >= self.deletions_offset:
            self._note_deletion(offset, event)
        followed = self.followed.get(event.partition)
        if followed is None or offset < followed.next_offset:
            return None
        followed.next_offset = offset + 1
        if isinstance(event, RemotePartitionDeleteMetadata):
            applied = _apply_deletion(followed, event.state)
        else:
            applied = followed.cache.apply(event)
        self.ignored_events += applied is not Applied.APPLIED
        return applied

    def skip(self, offset: int, reason: str) -> None:
        """Skips what is at `offset`: a batch whose records do not parse."""
        self._note_damage(offset, reason)

    def forget_damage(self, log_start_offset: int, end_offset: int) -> None:
        """Forgets damaged records that the topic does not have any more."""
        kept = [one for one in self.damaged if log_start_offset <= one.offset < end_offset]
        has_none = self._seen_damage_up_to <= log_start_offset
        self.damaged_records = 0 if has_none else self.damaged_records - len(self.damaged) + len(kept)
        self.damaged = deque(kept, _MOST_DAMAGE)
        self._seen_damage_up_to = min(self._seen_damage_up_to, end_offset)

    def advance(self, next_offset: int) -> None:
        """All records from `fetch_offset` to before `next_offset` were consumed; others are gone."""
        self.deletions_offset = max(self.deletions_offset, next_offset)
        for one in self.followed.values():
            one.next_offset = max(one.next_offset, next_offset)

    def _note_deletion(self, offset: int, event: RemoteLogMetadata) -> None:
        self.deletions_offset = offset + 1
        partition = event.partition
        known = self.deletions.get(partition)
        is_finished = isinstance(event, RemotePartitionDeleteMetadata) and event.state is DELETE_PARTITION_FINISHED
        if not is_finished:
            self.stored.setdefault(partition.topic_id, set()).add(partition)
        elif (stored := self.stored.get(partition.topic_id)) is not None:
            stored.discard(partition)
            if not stored:
                del self.stored[partition.topic_id]
        if not isinstance(event, RemotePartitionDeleteMetadata):
            if known is not None:
                self.deletions[partition] = known._replace(offset=offset)
        elif is_finished:
            self.deletions.pop(partition, None)
        elif known is not None or event.state is DELETE_PARTITION_MARKED:
            self.deletions[partition] = Deletion(event.broker_id, event.state, offset)

    def _note_damage(self, offset: int, reason: str) -> None:
        if offset >= self._seen_damage_up_to:
            self._seen_damage_up_to = offset + 1
            self.damaged_records += 1
            if len(self.damaged) < _MOST_DAMAGE:
                self.damaged.append(DamagedRecord(offset, reason))


def _apply_deletion(followed: Followed, state: RemotePartitionDeleteState) -> Applied:
    if followed.delete_state not in VALID_PREVIOUS_DELETE_STATES[state]:
        return Applied.INVALID_TRANSITION
    followed.delete_state = state
    if state is DELETE_PARTITION_FINISHED:
        followed.cache = RemoteLogMetadataCache()
    return Applied.APPLIED
