"""The driver of a shard of share-group state: snapshots truncate its log, and replaying it restores the same shard."""

from __future__ import annotations

from pathlib import Path

from odradek.coordinator.persister_shard import TopicsChanged
from odradek.coordinator.share_state import PersisterConfig, ShareKey
from odradek.coordinator.state_batches import StateBatch
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
from odradek.protocol.records.compression import Compression
from odradek.protocol.schema import Message
from odradek.server.coordinators.share_state_driver import PersisterCounters, PersisterShardDriver
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.coordinator.share_simulation import TOPIC_ID, image_of
from tests.server.harness.shard_driver import LOCAL, OTHER, Harness, eventually, now_ms

CONFIG = PersisterConfig(updates_per_snapshot=3)
KEYS = [ShareKey("g", TOPIC_ID, index) for index in (0, 1)]


class StateHarness(Harness):
    """A partition with a second replica in the ISR, which has the records up to the offset that the test sets."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.partition = self.open(isr=(LOCAL, OTHER))
        self.driver = self.drive()

    def drive(self) -> PersisterShardDriver:  # type: ignore[override]
        counters, metadata = PersisterCounters(), MetadataCache()
        metadata.image = image_of(2)
        driver = PersisterShardDriver(self.partition, CONFIG, now_ms, 10_000, Compression.NONE, metadata, counters)
        driver.load()
        return driver

    def follower_has(self, offset: int) -> None:
        self.partition.role.follower_fetched(OTHER, offset, now_ms())
        self.partition._committed(0)

    async def written(self, request: Message) -> None:
        """Submits the request and waits until it is in the log."""
        end = self.partition.log_end_offset
        self.submit(request, 0)
        await eventually(lambda: self.partition.log_end_offset == end + 1)

    async def reopened(self) -> None:
        self.driver.resign()
        self.partition.log.close(now_ms(), clean=False)
        self.partition = self.open()
        self.driver = self.drive()
        await eventually(lambda: self.driver.shard is not None)


def initialized(index: int) -> Message:
    partition = InitializeStatePartition(partition=index, state_epoch=1, start_offset=0)
    topic = InitializeStateData(topic_id=TOPIC_ID, partitions=[partition])
    return InitializeShareGroupStateRequest(group_id="g", topics=[topic])


def acknowledged(index: int, offset: int) -> Message:
    batch = StateBatchData(first_offset=offset, last_offset=offset, delivery_state=2, delivery_count=1)
    partition = WriteStatePartition(
        partition=index,
        state_epoch=1,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=0,
        state_batches=[batch],
    )
    topic = WriteStateData(topic_id=TOPIC_ID, partitions=[partition])
    return WriteShareGroupStateRequest(group_id="g", topics=[topic])


async def test_the_log_is_cut_below_snapshots_that_no_failover_can_lose(tmp_path: Path) -> None:
    harness = StateHarness(tmp_path / "__share_group_state-0")
    harness.follower_has(0)
    for index in (0, 1):
        await harness.written(initialized(index))
    for index in (0, 1):
        for offset in range(4):
            await harness.written(acknowledged(index, offset))
    shard = harness.driver.shard
    assert shard.state.snapshot_offsets == {KEYS[0]: 5, KEYS[1]: 9}
    harness.follower_has(6)
    harness.driver.prune()  # type: ignore[attr-defined]
    assert harness.partition.log_start_offset == 0, "without the snapshot at 9, the one at 1 is needed"
    harness.follower_has(10)
    assert harness.partition.log_start_offset == 5

    await harness.reopened()
    states = harness.driver.shard.state.partitions
    assert {key: states[key].batches for key in states} == dict.fromkeys(KEYS, (StateBatch(0, 3, 2, 1),))


async def test_a_cut_that_waits_goes_with_its_shard(tmp_path: Path) -> None:
    harness = StateHarness(tmp_path / "__share_group_state-0")
    harness.follower_has(0)
    await harness.written(initialized(0))
    await harness.written(initialized(0))
    assert harness.driver.shard.redundant() == (1, 2)
    harness.driver.prune()  # type: ignore[attr-defined]
    harness.driver.resign()
    harness.driver.load()
    harness.follower_has(2)
    assert harness.partition.log_start_offset == 0
    await eventually(lambda: harness.driver.shard is not None)
    harness.driver.prune()  # type: ignore[attr-defined]
    assert harness.partition.log_start_offset == 1


async def test_states_of_topics_that_were_deleted_while_the_log_was_loaded_go(tmp_path: Path) -> None:
    harness = StateHarness(tmp_path / "__share_group_state-0")
    harness.follower_has(0)
    await harness.written(initialized(0))
    harness.follower_has(1)
    harness.driver.resign()
    harness.driver = harness.drive()
    assert harness.driver.shard is None, "it is loaded in later turns"
    harness.driver.topics_changed(TopicsChanged(image_of(0), frozenset({TOPIC_ID})))  # type: ignore[attr-defined]
    await eventually(lambda: harness.driver.shard is not None and harness.partition.log_end_offset == 2)
    assert harness.driver.shard.state.partitions == {}  # type: ignore[attr-defined]
