"""Offsets of streams groups: validation of commits."""

from __future__ import annotations

import pytest
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from tests.coordinator.streams_harness import CURRENT, JOINED, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_commit_with_wrong_member_or_task_epoch_fails(harness: Harness) -> None:
    harness.beat("a", 0)
    assert harness.commit("a", 2, "in", 0) == 0
    assert harness.commit("a", 3, "in", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.commit("b", 2, "in", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.commit("a", 2, "in", 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    harness.beat("b", 0)
    harness.beat("a", 2)
    harness.beat("a", 2, {"0": [0], "1": [0]})
    assert harness.commit("a", 2, "in", 0) == 0, "the member has owned this task since that epoch"
    assert harness.commit("a", 2, "in", 1) == ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(("version", "stale"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.STALE_MEMBER_EPOCH)])
def test_transactional_commit_with_wrong_task_epoch_fails(harness: Harness, version: int, stale: int) -> None:
    def commit(member: str, epoch: int, index: int = 0) -> tuple[int, int]:
        """Returns the error and the number of written records."""
        part = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        topics = [TxnOffsetCommitRequestTopic(name="in", topic_id=b"in".ljust(16, b"."), partitions=[part])]
        fields = {"generation_id_or_member_epoch": epoch, "member_id": member, "producer_id": 1, "topics": topics}
        response, records = harness.ask(TxnOffsetCommitRequest(group_id="g", **fields), version)
        return response.topics[0].partitions[0].error_code, len(records)

    harness.beat("a", 0)
    assert commit("a", 2) == (0, 1)
    assert commit("", -1) == (0, 1)
    assert commit("a", 1) == commit("a", 3) == (stale, 0)
    assert commit("b", 2) == (ErrorCode.UNKNOWN_MEMBER_ID, 0)
    harness.beat("b", 0)
    harness.beat("a", 2)
    harness.beat("a", 2, {"0": [0], "1": [0]})
    assert (commit("a", 2, 0), commit("a", 2, 1)) == ((0, 1), (stale, 0))


def test_empty_classic_group_keeps_offsets_as_streams_group(harness: Harness) -> None:
    assert harness.commit("", -1, "in", 0) == 0
    assert isinstance(harness.shard.state.groups["g"], ClassicGroup)
    _, records = harness.beat("a", 0)
    assert records == ["-GroupMetadata", *JOINED, CURRENT]
    assert harness.shard.state.offsets.get("g", "in", 0) is not None
