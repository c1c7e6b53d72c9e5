"""The committed offsets of a shard's groups, and the pending offsets of open transactions.

Offsets of a transaction are pending, under its producer id, until its marker is replayed. A commit marker applies them
unless a later record has committed the partition since. An abort marker discards them (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...protocol.internal.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from ...protocol.records.batch import NO_PRODUCER_ID


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    #: -1 unless the client requested its own retention (OffsetCommit 2-4).
    expire_timestamp_ms: int
    #: Zero for a commit that was written before Kafka 4.1 or so.
    topic_id: bytes
    #: The record's offset in the log.
    record_offset: int


Partitions = dict[int, CommittedOffset]


Topics = dict[str, Partitions]


class OffsetStore:
    def __init__(self) -> None:
        self._by_group: dict[str, Topics] = {}
        #: Producer id -> group -> topic -> partition.
        self._pending: dict[int, dict[str, Topics]] = {}

    def of_group(self, group_id: str) -> Topics:
        return self._by_group.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def groups(self) -> Iterator[tuple[str, Topics]]:
        return iter(self._by_group.items())

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether an open transaction has a pending commit of this offset (`require_stable`, KIP-447)."""
        if not self._pending:
            return False
        return any(partition in groups.get(group_id, {}).get(topic, {}) for groups in self._pending.values())

    def has_pending(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self._pending.values())

    def pending_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yields topic and partition of each pending offset, possibly with duplicates."""
        for groups in self._pending.values():
            for topic, partitions in groups.get(group_id, {}).items():
                yield from ((topic, partition) for partition in partitions)

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer_id: int
    ) -> None:
        if value is None:
            _discard(self._by_group, key.group, key.topic, key.partition)
            for pending in self._pending.values():
                _discard(pending, key.group, key.topic, key.partition)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        target = self._by_group if producer_id == NO_PRODUCER_ID else self._pending.setdefault(producer_id, {})
        _put(target, key.group, key.topic, key.partition, committed)

    def replay_end_of_transaction(self, producer_id: int, committed: bool) -> None:
        for group_id, topics in self._pending.pop(producer_id, {}).items() if committed else ():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    existing = self.get(group_id, topic, partition)
                    if existing is None or offset.record_offset > existing.record_offset:
                        _put(self._by_group, group_id, topic, partition, offset)
        self._pending.pop(producer_id, None)


def _put(groups: dict[str, Topics], group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
    topics = groups.get(group_id)
    if topics is None:
        topics = groups[group_id] = {}
    partitions = topics.get(topic)
    if partitions is None:
        partitions = topics[topic] = {}
    partitions[partition] = offset


def _discard(groups: dict[str, Topics], group_id: str, topic: str, partition: int) -> None:
    """Removes an offset with its empty parents, so that a deleted group leaves nothing behind."""
    topics = groups.get(group_id, {})
    partitions = topics.get(topic, {})
    partitions.pop(partition, None)
    if not partitions:
        topics.pop(topic, None)
    if not topics:
        groups.pop(group_id, None)
