"""The consumption of a metadata partition, its partitioner, and its snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.tiers.cache import Applied
from odradek.tiers.events import encode_event
from odradek.tiers.metadata_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    write_snapshot,
)
from odradek.tiers.metadata_topic import Deletion, MetadataPartition, metadata_partition
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

from tests.harness.examples import examples
from tests.tiers.harness.generated import HISTORY_PARTITION, histories, partitions
from tests.tiers.harness.tier_oracle import TierOracle

OTHER = TopicIdPartition(b"another-topic-id", "payments", 7)
TOPIC_ID = b"metadata-topic-1"


def segment(number: int, partition: TopicIdPartition = HISTORY_PARTITION) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        partition, bytes((number,)) * 16, number * 10, number * 10 + 9, 0, 1, 0, 100, ((0, number * 10),)
    )


def finished(of: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(of.partition, of.segment_id, 1, 0, COPY_SEGMENT_FINISHED)


def read(metadata: MetadataPartition, events: list[RemoteLogMetadata], from_offset: int | None = None) -> None:
    """Fetches from `fetch_offset` on, as a broker does. `events` are those of the topic from offset 0 on."""
    for offset in range(metadata.fetch_offset if from_offset is None else from_offset, len(events)):
        metadata.consume(offset, encode_event(events[offset]))
    metadata.advance(len(events))


@settings(max_examples=examples(50), deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,))
@given(partition=partitions, count=st.integers(1, 200))
def test_metadata_partition_is_that_of_apache(tier_oracle: TierOracle, partition: TopicIdPartition, count: int) -> None:
    assert metadata_partition(partition, count) == tier_oracle.metadata_partition(partition, count)


def test_partition_is_ready_when_its_first_end_offset_is_read() -> None:
    metadata = MetadataPartition(0)
    events: list[RemoteLogMetadata] = [segment(1), finished(segment(1)), segment(2, OTHER)]
    followed = metadata.follow(HISTORY_PARTITION, len(events))
    metadata.begin_at(0, len(events))
    metadata.consume(0, encode_event(events[0]))
    assert not followed.is_ready
    read(metadata, events)
    assert followed.is_ready and followed.cache.segment_for(0, 15) is not None
    assert len(followed.cache) == 1, "events of partitions that are not followed are skipped"


def test_partition_of_an_empty_topic_is_ready_at_once() -> None:
    metadata = MetadataPartition(0)
    assert metadata.follow(HISTORY_PARTITION, 0).is_ready


def test_partition_that_is_followed_later_reads_from_the_start_and_others_skip_what_they_have() -> None:
    metadata = MetadataPartition(0)
    events: list[RemoteLogMetadata] = [segment(1), segment(2, OTHER), finished(segment(1)), finished(segment(2, OTHER))]
    first = metadata.follow(HISTORY_PARTITION, 4)
    read(metadata, events)
    second = metadata.follow(OTHER, 4)
    assert metadata.fetch_offset == 0 and not second.is_ready
    assert metadata.consume(0, encode_event(events[0])) is None, "the first one has it already"
    read(metadata, events)
    assert second.is_ready and second.cache.segment_for(0, 25) is not None
    assert first.cache.segment_for(0, 15) is not None and metadata.ignored_events == 0


@pytest.mark.parametrize("value", [None, b"", b"\x01\x00\x00\x05", encode_event(segment(1))[:-3]])
def test_damaged_record_is_skipped_and_named(value: bytes | None) -> None:
    metadata = MetadataPartition(3)
    followed = metadata.follow(HISTORY_PARTITION, 3)
    metadata.consume(0, encode_event(segment(1)))
    assert metadata.consume(1, value) is None
    metadata.consume(2, encode_event(finished(segment(1))))
    metadata.advance(3)
    assert metadata.may_be_saved and metadata.damaged_records == 1
    assert [one.offset for one in metadata.damaged] == [1] and metadata.damaged[0].reason
    assert followed.is_ready and followed.cache.segment_for(0, 15) is not None, "reads continue"
    metadata.consume(1, value)
    assert metadata.damaged_records == len(metadata.damaged) == 1, "a record that is read twice is damaged once"
    saved = decode_snapshot(encode_snapshot(TOPIC_ID, metadata), TOPIC_ID, 3)
    assert saved.damaged == metadata.damaged and saved.damaged_records == 1, "a start knows it"
    saved.consume(1, value)
    assert saved.damaged_records == 1
    saved.forget_damage(2, 3)
    assert not saved.damaged and not saved.damaged_records


def test_damage_before_the_start_of_the_topic_is_forgotten() -> None:
    metadata = MetadataPartition(0)
    metadata.follow(HISTORY_PARTITION, 3)
    metadata.consume(1, b"damage")
    metadata.advance(3)
    metadata.begin_at(2, 3)
    assert not metadata.damaged and not metadata.damaged_records


def test_only_the_first_hundred_damaged_records_are_kept() -> None:
    metadata = MetadataPartition(0)
    for offset in range(1_000):
        metadata.consume(offset, b"damage")
    assert len(metadata.damaged) == 100 and metadata.damaged[-1].offset == 99 and metadata.damaged_records == 1_000
    metadata.forget_damage(50, 1_000)
    assert metadata.damaged[0].offset == 50 and metadata.damaged_records == 950
    metadata.forget_damage(1_000, 1_000)
    assert not metadata.damaged and metadata.damaged_records == 0


@pytest.mark.parametrize(("log_start", "end"), [(5, 9), (0, 1)])
def test_cache_is_read_again_when_the_topic_lost_events(log_start: int, end: int) -> None:
    metadata = MetadataPartition(0)
    followed = metadata.follow(HISTORY_PARTITION, 2)
    read(metadata, [segment(1), finished(segment(1))])
    metadata.begin_at(log_start, end)
    assert len(followed.cache) == 0 and metadata.fetch_offset == log_start and not followed.is_ready


def test_deletion_of_a_partition_follows_its_states_and_empties_the_cache() -> None:
    metadata = MetadataPartition(0)
    followed = metadata.follow(HISTORY_PARTITION, 0)
    marked, started, done = (
        encode_event(RemotePartitionDeleteMetadata(HISTORY_PARTITION, 1, 0, state))
        for state in RemotePartitionDeleteState
    )
    metadata.consume(0, encode_event(segment(1)))
    assert metadata.consume(1, started) is Applied.INVALID_TRANSITION and followed.delete_state is None
    assert metadata.consume(2, marked) is Applied.APPLIED
    assert metadata.consume(3, done) is Applied.INVALID_TRANSITION
    assert metadata.consume(4, started) is Applied.APPLIED and len(followed.cache) == 1
    assert metadata.consume(5, done) is Applied.APPLIED
    assert len(followed.cache) == 0 and followed.delete_state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


# ---- snapshots


def content_of(metadata: MetadataPartition) -> object:
    return {
        partition: (
            {one.segment_id: one for one in followed.cache.segments()},
            followed.cache.references(),
            followed.delete_state,
            followed.next_offset,
        )
        for partition, followed in metadata.followed.items()
    }


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.data())
def test_start_from_a_snapshot_ends_like_a_start_from_the_beginning(
    history: list[RemoteLogMetadata], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(history)))
    whole, saved = MetadataPartition(4), MetadataPartition(4)
    for one in (whole, saved):
        one.follow(HISTORY_PARTITION, 0)
        one.follow(OTHER, 0)
    read(whole, history)
    read(saved, history[:at])
    restored = decode_snapshot(encode_snapshot(TOPIC_ID, saved), TOPIC_ID, 4)
    assert restored.fetch_offset == at
    restored.begin_at(0, len(history))
    assert all(one.is_ready == (at == len(history)) for one in restored.followed.values())
    read(restored, history)
    assert content_of(restored) == content_of(whole)


MARKED, STARTED, FINISHED = RemotePartitionDeleteState


def deletion(state: RemotePartitionDeleteState, partition: TopicIdPartition = OTHER) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(partition, 3, 0, state)


def test_deletion_that_has_not_ended_is_known_of_a_partition_that_is_not_followed() -> None:
    metadata = MetadataPartition(0)
    metadata.begin_at(0, 3)
    events: list[RemoteLogMetadata] = [segment(1, OTHER), deletion(MARKED), deletion(STARTED)]
    read(metadata, events)
    assert metadata.deletions == {OTHER: Deletion(3, STARTED, 2)} and metadata.fetch_offset == 3
    events.append(finished(segment(1, OTHER)))
    read(metadata, events)
    assert metadata.deletions[OTHER].offset == 3, "every event of the partition is progress"
    # A partition that is followed later has the same events read again.
    metadata.follow(HISTORY_PARTITION, 4)
    assert metadata.fetch_offset == 0
    read(metadata, events)
    assert metadata.deletions == {OTHER: Deletion(3, STARTED, 3)}
    read(metadata, [*events, deletion(FINISHED)])
    assert metadata.deletions == {}


def test_partition_may_be_stored_from_its_first_event_to_the_end_of_its_deletion() -> None:
    metadata = MetadataPartition(0)
    events: list[RemoteLogMetadata] = [segment(1, OTHER), finished(segment(1, OTHER)), segment(2)]
    read(metadata, events)
    assert metadata.stored == {OTHER.topic_id: {OTHER}, HISTORY_PARTITION.topic_id: {HISTORY_PARTITION}}
    restored = decode_snapshot(encode_snapshot(TOPIC_ID, metadata), TOPIC_ID, 0)
    assert restored.stored == metadata.stored
    read(restored, [*events, deletion(MARKED), deletion(STARTED), deletion(FINISHED)])
    assert restored.stored == {HISTORY_PARTITION.topic_id: {HISTORY_PARTITION}}
    restored.begin_at(0, 2)
    assert restored.stored == {} and restored.fetch_offset == 0


def test_events_of_a_second_deletion_after_the_end_begin_none() -> None:
    metadata = MetadataPartition(0)
    read(metadata, [deletion(MARKED), deletion(STARTED), deletion(FINISHED), deletion(STARTED), deletion(FINISHED)])
    assert metadata.deletions == {}


def test_deletions_are_in_the_snapshot_and_are_read_again_where_the_topic_was_cut() -> None:
    metadata = MetadataPartition(5)
    read(metadata, [segment(1, OTHER), deletion(MARKED)])
    restored = decode_snapshot(encode_snapshot(TOPIC_ID, metadata), TOPIC_ID, 5)
    assert restored.deletions == {OTHER: Deletion(3, MARKED, 1)} and restored.fetch_offset == 2
    restored.begin_at(0, 1)
    assert restored.deletions == {} and restored.fetch_offset == 0


@pytest.fixture
def saved() -> MetadataPartition:
    metadata = MetadataPartition(2)
    metadata.follow(HISTORY_PARTITION, 0)
    metadata.follow(OTHER, 0)
    read(metadata, [segment(1), finished(segment(1)), segment(2), segment(3, OTHER)])
    return metadata


def test_snapshot_file_is_replaced_whole(tmp_path: Path, saved: MetadataPartition) -> None:
    path = str(tmp_path / "2.snapshot")
    assert read_snapshot(path, TOPIC_ID, 2) is None
    write_snapshot(path, TOPIC_ID, saved)
    saved.consume(4, encode_event(finished(segment(2))))
    saved.advance(5)
    write_snapshot(path, TOPIC_ID, saved)
    found = read_snapshot(path, TOPIC_ID, 2)
    assert found is not None and found.fetch_offset == 5 and content_of(found) == content_of(saved)
    assert [one.name for one in tmp_path.iterdir()] == ["2.snapshot"]


def test_damaged_snapshot_is_no_snapshot(saved: MetadataPartition) -> None:
    content = encode_snapshot(TOPIC_ID, saved)
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged), TOPIC_ID, 2)
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(content[:at], TOPIC_ID, 2)


@pytest.mark.parametrize(("topic_id", "number"), [(b"metadata-topic-2", 2), (TOPIC_ID, 3)])
def test_snapshot_of_another_topic_or_partition_is_no_snapshot(
    saved: MetadataPartition, topic_id: bytes, number: int
) -> None:
    with pytest.raises(CorruptSnapshot, match="a snapshot of partition 2"):
        decode_snapshot(encode_snapshot(TOPIC_ID, saved), topic_id, number)
