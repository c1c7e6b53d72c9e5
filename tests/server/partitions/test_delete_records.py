"""DeleteRecords and OffsetForLeaderEpoch: the start offset of a log, and the end offsets of its epochs."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from tests.server.harness.data_path import DataPath, batch_of, delete_records


def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark(path: DataPath) -> None:
    topic = path.topic()
    for _ in range(5):
        path.produce(topic, batch_of(b"v"))
    assert delete_records(path, topic, 2) == (0, 2)
    assert delete_records(path, topic, 1) == (0, 2), "a log's start never goes back"
    assert delete_records(path, topic, 6) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(path, topic, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(path, topic, -1) == (0, 5)
    assert delete_records(path, "nowhere", 1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert path.produce(topic, batch_of(b"v")).log_start_offset == 5


def test_a_topic_that_is_only_compacted_keeps_its_records(path: DataPath) -> None:
    topic = path.topic(cleanup_policy="compact")
    path.produce(topic, batch_of(b"v"))
    assert delete_records(path, topic, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    mixed = path.topic(cleanup_policy="compact,delete")
    path.produce(mixed, batch_of(b"v"))
    assert delete_records(path, mixed, 1) == (0, 1)


@pytest.mark.parametrize(
    ("current", "asked", "found"),
    [
        (-1, 0, (0, 0, 3)),
        (0, 0, (0, 0, 3)),
        (-1, 5, (0, -1, -1)),
        (4, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (-3, 0, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
    ],
)
def test_end_of_an_epoch_is_returned(path: DataPath, current: int, asked: int, found: tuple[int, int, int]) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a", b"b", b"c"))
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, asked)])]
    )
    for version in (2, 3, 4):
        (reported_topic,) = path.client.call(request, version).topics
        one = reported_topic.partitions[0]
        assert (one.error_code, one.leader_epoch, one.end_offset) == found
