"""The persister of share groups: combination of overlapping states, periodic snapshots, replay of the log."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from odradek.coordinator.persister_shard import PersisterShard, TopicsChanged
from odradek.coordinator.result import GroupRequest, Record
from odradek.coordinator.share_state import PersisterConfig, ShareKey
from odradek.coordinator.share_state_records import decode_record, encode_record
from odradek.coordinator.state_batches import StateBatch, combine
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.share_group_state import ShareSnapshotValue, ShareUpdateValue
from odradek.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from odradek.protocol.messages.share_state_batches import StateBatchData
from odradek.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStateData,
    WriteStatePartition,
)

from tests.coordinator.share_simulation import TOPIC_ID, image_of
from tests.harness.examples import examples


def by_offset(batches: Any) -> dict[int, tuple[int, int]]:
    """Returns the rank of each offset: the highest delivery count, then the highest state."""
    reported: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            reported[offset] = max(reported.get(offset, (-1, -1)), (count, state))
    return reported


@pytest.mark.parametrize("seed", range(examples(50)))
def test_combined_states_keep_highest_rank_of_each_offset(seed: int) -> None:
    rng = random.Random(seed)
    batches = []
    for _ in range(rng.randrange(12)):
        first = rng.randrange(30)
        last = first + rng.randrange(10)
        batches.append(StateBatch(first, last, rng.choice((0, 2, 4)), rng.randrange(1, 4)))
    start = rng.randrange(20)
    combined = combine(batches, start)
    assert by_offset(combined) == {o: reported for o, reported in by_offset(batches).items() if o >= start}
    for before, after in itertools.pairwise(combined):
        assert before.last < after.first, "combined batches do not overlap"
        assert before.last + 1 < after.first or before[2:] != after[2:], "equal neighbours are joined"


class Harness:
    """A shard whose records are kept as encoded bytes, as in the log."""

    def __init__(self, updates_per_snapshot: int) -> None:
        self.config = PersisterConfig(updates_per_snapshot, cold_snapshot_interval_ms=1_000)
        self.shard = PersisterShard(self.config)
        self.shard.loaded(0)
        self.shard.handle(TopicsChanged(image_of()), 0)
        self.log: list[tuple[bytes, bytes | None]] = []
        start = InitializeStatePartition(partition=0, state_epoch=1, start_offset=0)
        self.ask(InitializeShareGroupStateRequest, InitializeStateData, start)

    def ask(self, request: Any, topic: Any, partition: Any, now: int = 0) -> Any:
        asked = request(group_id="g", topics=[topic(topic_id=TOPIC_ID, partitions=[partition])])
        self.shard.handle(GroupRequest("token", asked), now)
        return self.take()[0].response.results[0].partitions[0]

    def take(self) -> list[Any]:
        output = self.shard.take()
        self.log += [encode_record(record) for record in output.records]
        return output.replies

    def write(self, *batches: StateBatch, start: int = 0) -> None:
        partition = WriteStatePartition(
            partition=0,
            state_epoch=1,
            leader_epoch=0,
            start_offset=start,
            delivery_complete_count=0,
            state_batches=[StateBatchData(*batch) for batch in batches],
        )
        assert self.ask(WriteShareGroupStateRequest, WriteStateData, partition).error_code == 0

    def records(self) -> list[Record]:
        return [decode_record(key, value) for key, value in self.log]

    def loaded_again(self, records: list[Record]) -> PersisterShard:
        shard = PersisterShard(self.config)
        for record in records:
            shard.replay(record)
        shard.loaded(0)
        return shard


def test_snapshot_after_update_limit_makes_log_below_redundant() -> None:
    harness = Harness(updates_per_snapshot=3)
    for offset in range(8):
        harness.write(StateBatch(offset, offset, 2, 1))
    kinds = [type(record.value) for record in harness.records()]
    update, snapshot = ShareUpdateValue, ShareSnapshotValue
    assert kinds == [snapshot, update, update, update, snapshot, update, update, update, snapshot]
    assert harness.shard.redundant() == (8, 9)
    again = harness.loaded_again(harness.records())
    assert again.state.partitions == harness.shard.state.partitions
    (state,) = harness.loaded_again(harness.records()[8:]).state.partitions.values()
    (known,) = harness.shard.state.partitions.values()
    assert (state.batches, state.start_offset, state.snapshot_epoch) == (known.batches, 0, known.snapshot_epoch)


def test_log_is_cut_only_after_snapshot_and_tombstone_are_committed() -> None:
    harness = Harness(updates_per_snapshot=3)
    for offset in range(5):
        harness.write(StateBatch(offset, offset, 2, 1))
    assert harness.shard.redundant() == (4, 5)
    other = ShareKey("g", TOPIC_ID, 1)
    (known,) = harness.shard.state.partitions.values()
    harness.shard.state.write_snapshot(other, known)
    assert harness.shard.redundant() == (4, 7), "the snapshot at 6 may be lost"
    harness.shard.state.write_tombstone(other)
    assert harness.shard.redundant() == (4, 8), "the tombstone at 7 may be lost"
    assert harness.loaded_again(harness.records()).redundant() == (4, 5)


def test_unused_state_gets_new_snapshot_after_interval() -> None:
    harness = Harness(updates_per_snapshot=500)
    harness.write(StateBatch(0, 5, 2, 1))
    deadline = harness.shard.deadline()
    assert deadline == 1_000
    harness.shard.expire(deadline)
    harness.take()
    (state,) = harness.shard.state.partitions.values()
    assert (state.snapshot_epoch, state.write_timestamp_ms, state.batches) == (1, 1_000, (StateBatch(0, 5, 2, 1),))
    harness.shard.expire(2_000)
    assert harness.take() == [] and len(harness.log) == 3, "a second snapshot is not necessary"


def test_topic_deletion_deletes_its_states() -> None:
    harness = Harness(updates_per_snapshot=500)
    harness.shard.handle(TopicsChanged(image_of(), frozenset({TOPIC_ID})), 5)
    harness.take()
    assert harness.shard.state.partitions == {}
    assert harness.loaded_again(harness.records()).state.partitions == {}


def test_update_without_its_snapshot_is_a_state_of_its_own() -> None:
    """Kafka also uses the update alone, so a request with the first state epoch is not fenced."""
    harness = Harness(updates_per_snapshot=500)
    harness.write(StateBatch(0, 5, 2, 1), start=3)
    snapshot, update = harness.records()
    assert isinstance(snapshot.value, ShareSnapshotValue) and isinstance(update.value, ShareUpdateValue)
    (state,) = harness.loaded_again([update]).state.partitions.values()
    (known,) = harness.shard.state.partitions.values()
    assert (state.state_epoch, state.leader_epoch, state.start_offset) == (0, 0, 3)
    assert (state.batches, state.snapshot_epoch) == (known.batches, known.snapshot_epoch)


@pytest.mark.parametrize(("topic_id", "partition"), [(TOPIC_ID, 999), (b"unknown".ljust(16, b"."), 0)])
def test_state_of_an_unknown_partition_is_not_created(topic_id: bytes, partition: int) -> None:
    harness = Harness(updates_per_snapshot=500)
    before = dict(harness.shard.state.partitions)
    start = InitializeStatePartition(partition=partition, state_epoch=1, start_offset=0)
    topics = [InitializeStateData(topic_id=topic_id, partitions=[start])]
    request = InitializeShareGroupStateRequest(group_id="g", topics=topics)
    harness.shard.handle(GroupRequest("token", request), 0)
    (result,) = harness.take()[0].response.results
    assert result.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert harness.shard.state.partitions == before
