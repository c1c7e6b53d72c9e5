"""The state of share partitions in one partition of `__share_group_state`, and the records that change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..metadata.image import EMPTY_IMAGE, MetadataImage
from ..protocol.internal.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotStateBatch,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateStateBatch,
    ShareUpdateValue,
)
from ..protocol.schema import Message
from .result import GroupRequest, Record, Reply
from .state_batches import StateBatch, combine
from .timers import Timers


class ShareKey(NamedTuple):
    """One share partition."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class PersisterConfig:
    """The broker configuration that a shard uses; Kafka's keys, units last."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class ShareState:
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_timestamp_ms: int
    write_timestamp_ms: int
    #: The highest leader epoch seen so far. It fences requests with a lower one.
    fencing_leader_epoch: int = 0
    #: Updates since the last snapshot that reset the count.
    update_count: int = 0


class PersisterState:
    def __init__(self, config: PersisterConfig) -> None:
        self.config = config
        self.partitions: dict[ShareKey, ShareState] = {}
        #: The topics of the last published metadata.
        self.image: MetadataImage = EMPTY_IMAGE
        self.timers = Timers()
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        #: The offset of the next record in the log. This shard is its partition's only writer.
        self.next_offset = 0
        #: The offset of each share partition's last snapshot. Records below all of them are redundant.
        self.snapshot_offsets: dict[ShareKey, int] = {}
        #: The offset of the newest snapshot or tombstone, of all share partitions including deleted ones.
        self.newest_snapshot_offset = -1

    def reply(self, message: GroupRequest, response: Message) -> None:
        self.replies.append(Reply(message.token, response))

    # Changes.

    def write_snapshot(self, key: ShareKey, state: ShareState) -> None:
        value = ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.create_timestamp_ms,
            write_timestamp=state.write_timestamp_ms,
            state_batches=[ShareSnapshotStateBatch(*batch) for batch in state.batches],
        )
        self._write(Record(ShareSnapshotKey(*key), value))

    def write_update(self, key: ShareKey, update: ShareUpdateValue) -> None:
        self._write(Record(ShareUpdateKey(*key), update))

    def write_tombstone(self, key: ShareKey) -> None:
        self._write(Record(ShareSnapshotKey(*key), None))

    def _write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record)

    # Replay.

    def replay(self, record: Record) -> None:
        key, value, *_ = record
        assert isinstance(key, (ShareSnapshotKey, ShareUpdateKey))
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        if isinstance(key, ShareSnapshotKey):
            self.newest_snapshot_offset = self.next_offset
        if isinstance(value, ShareSnapshotValue):
            self._replay_snapshot(share_key, value)
        elif isinstance(value, ShareUpdateValue):
            self._replay_update(share_key, value)
        else:
            assert value is None
            self.partitions.pop(share_key, None)
            self.snapshot_offsets.pop(share_key, None)
        self.next_offset += 1

    def _replay_snapshot(self, key: ShareKey, value: ShareSnapshotValue) -> None:
        before = self.partitions.get(key)
        count = 0 if before is None else before.update_count
        self.snapshot_offsets.pop(key, None)
        self.snapshot_offsets[key] = self.next_offset
        self.partitions[key] = ShareState(
            value.snapshot_epoch,
            value.state_epoch if before is None else max(before.state_epoch, value.state_epoch),
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            tuple(_batch(b) for b in value.state_batches),
            value.create_timestamp,
            value.write_timestamp,
            value.leader_epoch if before is None else max(before.fencing_leader_epoch, value.leader_epoch),
            0 if count >= self.config.updates_per_snapshot else count,
        )

    def _replay_update(self, key: ShareKey, value: ShareUpdateValue) -> None:
        before = self.partitions.get(key)
        batches = tuple(_batch(b) for b in value.state_batches)
        if before is None:
            # The snapshot is missing. Kafka also uses the update alone.
            before = ShareState(value.snapshot_epoch, 0, value.leader_epoch, value.start_offset, 0, (), 0, 0)
        leader_epoch = before.leader_epoch if value.leader_epoch == -1 else value.leader_epoch
        start_offset = before.start_offset if value.start_offset == -1 else value.start_offset
        self.partitions[key] = replace(
            before,
            leader_epoch=leader_epoch,
            fencing_leader_epoch=max(before.fencing_leader_epoch, leader_epoch),
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=combine((*before.batches, *batches), start_offset),
            update_count=before.update_count + 1,
        )


def _batch(batch: ShareSnapshotStateBatch | ShareUpdateStateBatch) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


def update_record(
    state: ShareState, leader_epoch: int, start_offset: int, complete_count: int, batches: tuple[StateBatch, ...]
) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete_count,
        state_batches=[ShareUpdateStateBatch(*batch) for batch in batches],
    )
