"""A shard loaded from its log: the last record of a key counts, a transaction at its marker, unknown records are ignored."""

from __future__ import annotations

import itertools
import struct

import pytest
from odradek.coordinator.groups.group_records import group_record, offset_record
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import Record as GroupRecord
from odradek.protocol.codec import encode
from odradek.protocol.internal.consumer_offsets import (
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, encode_batch

from tests.coordinator.harness.kinds import KINDS, encode_record, new_loader

PRODUCER = {"producer_id": 7, "producer_epoch": 0}


class Log:
    """A log of consecutive batches."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def append(self, *records: GroupRecord | tuple[bytes, bytes | None], transactional: bool = False) -> None:
        pairs = [encode_record(r) if isinstance(r, GroupRecord) else r for r in records]
        made = [Record(self.end + i, 1, key, value) for i, (key, value) in enumerate(pairs)]
        kind = {**PRODUCER, "base_sequence": self.end} if transactional else {}
        self.data += encode_batch(made, transactional=transactional, **kind)
        self.end += len(made)

    def end_transaction(self, *, committed: bool) -> None:
        self.data += encode_end_transaction(
            committed, coordinator_epoch=0, base_offset=self.end, timestamp=1, **PRODUCER
        )
        self.end += 1

    def loaded(self) -> GroupShard:
        loader = new_loader(GroupsConfig(), "__consumer_offsets-0")
        loader.feed(self.data)
        return loader.loaded(self.end, now_ms=1_000)


def offset(value: int, partition: int = 0, group: str = "g") -> GroupRecord:
    return offset_record(group, "t", partition, OffsetCommitValue(offset=value, metadata="", commit_timestamp=1))


def committed(log: Log, partition: int = 0) -> int | None:
    found = log.loaded().state.offsets.get("g", "t", partition)
    return None if found is None else found.offset


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_last_record_of_a_key_counts(log: Log) -> None:
    log.append(offset(1), offset(2), offset(3, partition=1))
    log.append(offset(4))
    assert (committed(log), committed(log, 1)) == (4, 3)
    log.append(offset_record("g", "t", 0, None))
    assert (committed(log), committed(log, 1)) == (None, 3)


def test_offsets_of_a_transaction_count_when_it_is_committed(log: Log) -> None:
    log.append(offset(1))
    log.append(offset(5), transactional=True)
    assert committed(log) == 1
    assert log.loaded().state.offsets.is_pending("g", "t", 0)
    log.end_transaction(committed=True)
    assert committed(log) == 5
    assert not log.loaded().state.offsets.is_pending("g", "t", 0)


def test_offsets_of_an_aborted_transaction_are_gone(log: Log) -> None:
    log.append(offset(1))
    log.append(offset(5), transactional=True)
    log.end_transaction(committed=False)
    assert committed(log) == 1
    assert not log.loaded().state.offsets.has_pending("g")


def test_a_commit_that_came_after_that_of_the_transaction_stays(log: Log) -> None:
    log.append(offset(5), transactional=True)
    log.append(offset(6))
    log.end_transaction(committed=True)
    assert committed(log) == 6


def test_a_deleted_offset_is_deleted_from_open_transactions_too(log: Log) -> None:
    log.append(offset(5), transactional=True)
    log.append(offset_record("g", "t", 0, None))
    log.end_transaction(committed=True)
    assert committed(log) is None


def test_the_next_record_goes_where_the_log_ends(log: Log) -> None:
    log.append(offset(1), offset(2), offset(3))
    assert log.loaded().state.next_offset == 3


def test_records_of_other_kinds_are_left_aside(log: Log) -> None:
    unknown_kind, unknown_version = struct.pack(">hh", 3, 0), encode_record(offset(1))[0]
    log.append((unknown_kind, b"\0\0what"), (unknown_version, b"\0\x63what"), (b"", b""), (b"\0\1cut", b"\0\1"))
    log.append(offset(2, partition=1))
    assert (committed(log), committed(log, 1)) == (None, 2)


def test_commits_of_kafkas_first_days_are_read(log: Log) -> None:
    key = b"\0\0" + encode(LegacyOffsetCommitKey(group="g", topic="t", partition=0), 0)
    log.append((key, b"\0\0" + encode(LegacyOffsetCommitValue(offset=8, metadata="m", commit_timestamp=1), 0)))
    assert committed(log) == 8


@pytest.mark.parametrize(("offsets", "groups"), list(itertools.product(range(5), range(5))))
def test_every_version_of_the_values_is_read(log: Log, offsets: int, groups: int) -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="h", session_timeout=5, subscription=b"", assignment=b"a"
    )
    group = GroupMetadataValue(protocol_type="connect", generation=2, protocol="p", leader="m", members=[member])
    log.append(offset(9)._replace(value_version=offsets), group_record("g", group)._replace(value_version=groups))
    found = log.loaded().state.groups["g"].members["m"]  # type: ignore[attr-defined]
    assert committed(log) == 9
    assert (found.assignment, found.session_timeout_ms) == (b"a", 5)
    if groups == 0:
        assert found.rebalance_timeout_ms == 5, "there was one timeout for both"


def test_a_log_is_loaded_in_slices(log: Log) -> None:
    log.append(*[offset(i, partition=i % 10) for i in range(100)])
    loader = new_loader(GroupsConfig(), "p")
    loader.feed(log.data)
    assert loader.replay_some(9)
    assert not loader.replay_some(1)
    assert not loader.replay_some(1)


def test_every_kind_of_record_that_is_known_is_replayed() -> None:
    assert {key for key, _ in KINDS.record_types.values()} == {*KINDS.replays, OffsetCommitKey}
