"""Loadings of logs whose offsets do not ascend: no broker writes such a log, but a file may have any bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from odradek.coordinator.groups.group_records import offset_record
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.persister_loader import PersisterLoader
from odradek.coordinator.result import Record as CoordinatorRecord
from odradek.coordinator.share_state import PersisterConfig
from odradek.coordinator.share_state_records import encode_record as encode_share_record
from odradek.coordinator.transaction import TransactionStatus
from odradek.coordinator.transaction_loader import TransactionLoader
from odradek.coordinator.transaction_records import encode_record as encode_transaction_record
from odradek.coordinator.transaction_records import transaction_record
from odradek.coordinator.transaction_requests import TransactionsConfig
from odradek.protocol.internal.consumer_offsets import OffsetCommitValue
from odradek.protocol.internal.share_group_state import ShareSnapshotKey, ShareSnapshotValue
from odradek.protocol.internal.transaction_state import TransactionLogValue
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.records.record import Record, encode_batch

from tests.coordinator.harness.kinds import encode_record, new_loader

NOW = 1_000


class Loading(NamedTuple):
    """`record`: the key and value of the record with a number. `numbers`: those that a loaded shard has."""

    loader: Callable[[], Any]
    record: Callable[[int], tuple[bytes, bytes | None]]
    numbers: Callable[[Any], set[int]]


def group_commit(number: int) -> tuple[bytes, bytes | None]:
    return encode_record(offset_record("g", "t", number, OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)))


def transaction(number: int) -> tuple[bytes, bytes | None]:
    value = TransactionLogValue(
        producer_id=number, previous_producer_id=number, producer_epoch=0, transaction_timeout_ms=1_000,
        transaction_status=TransactionStatus.EMPTY, transaction_partitions=None,
        transaction_last_update_timestamp_ms=NOW, transaction_start_timestamp_ms=-1,
    )  # fmt: skip
    return encode_transaction_record(transaction_record(str(number), value, 1))


def share_state(number: int) -> tuple[bytes, bytes | None]:
    value = ShareSnapshotValue(snapshot_epoch=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[])
    return encode_share_record(CoordinatorRecord(ShareSnapshotKey("g", bytes(16), number), value))


LOADINGS = [
    Loading(
        lambda: new_loader(GroupsConfig(), "log"),
        group_commit,
        lambda shard: {number for number in range(10) if shard.state.offsets.get("g", "t", number) is not None},
    ),
    Loading(
        lambda: TransactionLoader(TransactionsConfig(), "log"),
        transaction,
        lambda shard: {int(name) for name in shard.state.transactions},
    ),
    Loading(
        lambda: PersisterLoader(PersisterConfig(), "log"),
        share_state,
        lambda shard: {key.partition for key in shard.state.partitions},
    ),
]


def batch(loading: Loading, first: int, last: int, offsets: dict[int, int]) -> bytes:
    """A batch of the offsets from `first` to `last`. `offsets`: of its records, by their numbers."""
    records = [Record(offset, NOW, *loading.record(number)) for number, offset in offsets.items()]
    return encode_batch(records, base_offset=first, last_offset=last)


@pytest.mark.parametrize("loading", LOADINGS, ids=["groups", "transactions", "share states"])
@pytest.mark.parametrize(
    "offsets",
    [{1: 5, 2: 3, 3: 6}, {1: 5, 2: 5, 3: 6}, {1: 5, 2: 9, 3: 6}, {1: 5, 2: -7, 3: 6}, {1: 5, 2: 1 << 30, 3: 6}],
    ids=["back", "again", "behind its batch", "negative", "far"],
)
def test_record_out_of_order_is_skipped(
    loading: Loading, offsets: dict[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    loader = loading.loader()
    loader.feed(batch(loading, 5, 6, offsets))
    loader.feed(batch(loading, 7, 7, {4: 7}))
    shard = loader.loaded(8, NOW)
    assert loading.numbers(shard) == {1, 3, 4}
    assert shard.state.next_offset == 8
    assert "out of order" in caplog.text and "1 records of it were skipped" in caplog.text


@pytest.mark.parametrize("loading", LOADINGS, ids=["groups", "transactions", "share states"])
@pytest.mark.parametrize("first", [0, 4, 6])
def test_batch_before_the_end_of_the_last_one_is_damage(loading: Loading, first: int) -> None:
    loader = loading.loader()
    loader.feed(batch(loading, 5, 6, {1: 5, 2: 6}))
    with pytest.raises(CorruptBatch, match=f"from {first} to .* next offset of the log is 7"):
        loader.feed(batch(loading, first, first + 1, {3: first}))


@pytest.mark.parametrize("loading", LOADINGS, ids=["groups", "transactions", "share states"])
def test_batch_that_ends_before_its_start_is_damage(loading: Loading) -> None:
    with pytest.raises(CorruptBatch):
        loading.loader().feed(batch(loading, 5, 3, {1: 5}))


@pytest.mark.parametrize("loading", LOADINGS, ids=["groups", "transactions", "share states"])
def test_replay_behind_the_end_of_the_log_fails(loading: Loading) -> None:
    loader = loading.loader()
    loader.feed(batch(loading, 5, 6, {1: 5, 2: 6}))
    with pytest.raises(AssertionError, match="log"):
        loader.loaded(6, NOW)


@pytest.mark.parametrize("loading", LOADINGS, ids=["groups", "transactions", "share states"])
def test_replay_of_an_earlier_offset_fails(loading: Loading) -> None:
    loader = loading.loader()
    loader.shard.state.next_offset = 6
    loader.feed(batch(loading, 5, 5, {1: 5}))
    with pytest.raises(AssertionError, match="offset 5 is replayed at 6"):
        loader.replay_some(10)
