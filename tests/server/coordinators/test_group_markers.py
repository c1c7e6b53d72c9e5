"""Transactions of a group shard's offsets, and its handover: what is written, when it counts, and what fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.result import MetadataChanged, TopicsDeleted
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.server.coordinators.group_configs import _known_assignors
from odradek.server.coordinators.group_shard_driver import GroupShardDriver, SharedByShards
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.server.harness.shard_driver import LOCAL, OTHER, Harness, now_ms

PRODUCER_ID, EPOCH, VERSION = 5, 0, 5


def committing(offset: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    return TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=PRODUCER_ID, producer_epoch=EPOCH, topics=[topic]
    )


def marker(*, committed: bool, epoch: int = EPOCH) -> Marker:
    return Marker(PRODUCER_ID, epoch, committed, 0, 1)


@pytest.fixture
async def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path / "__consumer_offsets-0")


async def ended(harness: Harness, *, committed: bool, epoch: int = EPOCH) -> list[int]:
    errors: list[int] = []
    harness.driver.end_transaction(marker(committed=committed, epoch=epoch), errors.append)
    await asyncio.sleep(0)
    return errors


@pytest.mark.parametrize(("committed", "offsets"), [(True, {("t", 0): 7}), (False, {})])
async def test_offsets_of_a_transaction_count_with_its_commit_and_go_with_its_abort(
    committed: bool, offsets: dict[Any, int], harness: Harness
) -> None:
    response = await harness.ask(committing(7), VERSION)
    assert response.topics[0].partitions[0].error_code == 0
    assert await harness.fetched() == {}
    assert await ended(harness, committed=committed) == [0]
    assert await harness.fetched() == offsets


async def test_marker_is_written_behind_the_decisions_of_its_turn(harness: Harness) -> None:
    response = harness.submit(committing(7), VERSION)
    assert await ended(harness, committed=True) == [0]
    assert (await response).topics[0].partitions[0].error_code == 0
    assert await harness.fetched() == {("t", 0): 7}
    assert await harness.fetched() == {("t", 0): 7}, "a decision after the marker is at the right offset"
    assert harness.driver._shard is not None
    assert harness.driver._shard.state.next_offset == harness.partition.log_end_offset


async def test_marker_counts_when_the_replicas_have_it(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "__consumer_offsets-0")
    harness.partition = harness.open(isr=(LOCAL, OTHER))
    harness.driver = harness.drive()
    assert await ended(harness, committed=True) == []
    errors: list[int] = []
    harness.driver.hand_over(errors.append)
    end = harness.partition.log_end_offset
    harness.partition.follower_fetched(OTHER, end, 0, -1, now_ms())
    await asyncio.sleep(0)
    assert errors == [0]


async def test_marker_of_an_older_epoch_is_an_error_and_changes_nothing(harness: Harness) -> None:
    assert await ended(harness, committed=True, epoch=EPOCH + 1) == [0]
    end = harness.partition.log_end_offset
    [error] = await ended(harness, committed=True)
    assert error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert harness.partition.log_end_offset == end
    assert harness.driver._shard is not None
    assert harness.driver._shard.state.next_offset == end


@pytest.mark.parametrize("state", ["resigned", "loading"])
async def test_shard_that_is_not_there_writes_no_marker_and_hands_nothing_over(state: str, harness: Harness) -> None:
    if state == "resigned":
        harness.driver.resign()
        expected = ErrorCode.NOT_COORDINATOR
    else:
        harness.driver = GroupShardDriver(harness.partition, harness.config, now_ms, commit_timeout_ms=1000)
        expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await ended(harness, committed=True) == [expected]
    errors: list[int] = []
    harness.driver.hand_over(errors.append)
    assert errors == [expected]
    assert harness.partition.log_end_offset == 0


async def test_handover_that_fails_by_a_bug_is_an_error_and_drops_the_shard(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(shard: GroupShard, now: int) -> None:
        raise ZeroDivisionError("a bug")

    await harness.joined()
    monkeypatch.setattr(GroupShard, "hand_over", fail)
    errors: list[int] = []
    harness.driver.hand_over(errors.append)
    assert errors == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert "the handover" in caplog.text
    monkeypatch.undo()


async def test_image_and_deletions_that_come_during_the_load_reach_the_loaded_shard(harness: Harness) -> None:
    assert (await harness.ask(committing(7), VERSION)).topics[0].partitions[0].error_code == 0
    assert await ended(harness, committed=True) == [0]
    assert await harness.fetched() == {("t", 0): 7}
    harness.driver.resign()
    metadata = MetadataCache()
    driver = harness.driver = GroupShardDriver(
        harness.partition, harness.config, now_ms, commit_timeout_ms=30_000, shared=SharedByShards(metadata)
    )
    image = metadata.image = EMPTY_IMAGE._replace(offset=77)
    driver.metadata_changed(MetadataChanged(image, frozenset()))
    driver.topics_deleted(TopicsDeleted({"t": bytes(16)}))
    driver.load()
    async with asyncio.timeout(30):
        while driver._shard is None:  # noqa: ASYNC110 - the load ends in turns of the loop
            await asyncio.sleep(0)
    assert driver._shard.state.image is image
    assert await harness.fetched() == {}
    later = EMPTY_IMAGE._replace(offset=78)
    driver.metadata_changed(MetadataChanged(later, frozenset()))
    assert driver._shard.state.image is later


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["uniform"], ("uniform",)),
        (["org.example.Mine", "range"], ("range",)),
        (["org.example.Mine"], ("uniform", "range")),
    ],
)
def test_assignors_that_are_not_known_are_left_out(names: list[str], known: tuple[str, ...]) -> None:
    assert _known_assignors(names) == known
