"""Records of `__remote_log_metadata`: exchanged with Apache's RemoteLogMetadataSerde, and hostile bytes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.protocol.internal.remote_log_metadata import RemoteLogSegmentMetadataRecord
from odradek.tiers.events import (
    MOST_EVENT_BYTES,
    DamagedMetadata,
    decode_event,
    decode_snapshot_entry,
    encode_event,
    encode_snapshot_entry,
)
from odradek.tiers.segment_metadata import RemoteLogMetadata, RemoteLogSegmentMetadata, TopicIdPartition

from tests.harness.examples import examples
from tests.tiers.harness.generated import events, segments
from tests.tiers.harness.tier_oracle import TierOracle, event_json, snapshot_json

PARTITION = TopicIdPartition(bytes(range(16)), "orders", 3)
SEGMENT = RemoteLogSegmentMetadata(PARTITION, b"s" * 16, 100, 199, 1_700, 1, 1_800, 4_096, ((0, 100), (2, 150)))
#: The session's JVM is shared by all examples, which change nothing in it.
SHARED = (HealthCheck.function_scoped_fixture,)


@settings(max_examples=examples(100), deadline=None)
@given(events)
def test_decoded_event_equals_the_encoded_one(event: RemoteLogMetadata) -> None:
    assert decode_event(encode_event(event)) == event


@settings(max_examples=examples(100), deadline=None)
@given(segments())
def test_snapshot_entry_has_all_but_the_partition(segment: RemoteLogSegmentMetadata) -> None:
    assert decode_snapshot_entry(encode_snapshot_entry(segment), segment.partition) == segment


@settings(max_examples=examples(80), deadline=None, suppress_health_check=SHARED)
@given(event=events)
def test_apache_reads_and_writes_the_same_bytes(tier_oracle: TierOracle, event: RemoteLogMetadata) -> None:
    value = encode_event(event)
    shown = event_json(event)
    assert tier_oracle.deserialize(value) == shown
    assert tier_oracle.serialize(shown) == value


@settings(max_examples=examples(50), deadline=None, suppress_health_check=SHARED)
@given(segment=segments())
def test_apache_reads_and_writes_the_same_snapshot_entries(
    tier_oracle: TierOracle, segment: RemoteLogSegmentMetadata
) -> None:
    value = encode_snapshot_entry(segment)
    shown = snapshot_json(segment)
    assert tier_oracle.deserialize(value) == shown
    assert tier_oracle.serialize(shown) == value


@settings(max_examples=examples(150), deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_damaged_metadata(value: bytes) -> None:
    with pytest.raises(DamagedMetadata):
        decode_event(value)


@settings(max_examples=examples(150), deadline=None)
@given(events, st.data())
def test_changed_bytes_are_rejected_or_pass_the_checks(event: RemoteLogMetadata, data: st.DataObject) -> None:
    value = bytearray(encode_event(event))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] = data.draw(st.integers(0, 255))
    try:
        found = decode_event(bytes(value[: data.draw(st.integers(at, len(value)))]))
    except DamagedMetadata:
        return
    assert decode_event(encode_event(found)) == found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start_offset": -1}, "offsets are out of order"),
        ({"end_offset": 99}, "offsets are out of order"),
        ({"end_offset": (1 << 63) - 1}, "offsets are out of order"),
        ({"size_bytes": -1}, "-1 bytes"),
        ({"epochs": ()}, "0 leader epochs"),
        ({"epochs": ((0, 150), (1, 100))}, "epochs are out of order"),
        ({"epochs": ((-1, 100),)}, "epochs are out of order"),
        ({"epochs": ((0, 201),)}, "epochs are out of order"),
        ({"segment_id": bytes(16)}, "has no id"),
        ({"custom_metadata": bytes(70_000)}, "70000 bytes of custom metadata"),
        ({"partition": PARTITION._replace(topic="../../etc")}, "not the name of a topic"),
        ({"partition": PARTITION._replace(topic="..")}, "not the name of a topic"),
        ({"partition": PARTITION._replace(topic="a" * 250)}, "not the name of a topic"),
        ({"partition": PARTITION._replace(partition=-1)}, "partition -1"),
        ({"partition": PARTITION._replace(topic_id=bytes(16))}, "has no id"),
    ],
)
def test_metadata_that_no_segment_can_have_is_damaged(change: dict[str, object], reason: str) -> None:
    with pytest.raises(DamagedMetadata, match=reason):
        decode_event(encode_event(SEGMENT._replace(**change)))  # type: ignore[arg-type]


def test_state_that_kafka_has_not_is_damaged() -> None:
    value = bytearray(encode_event(SEGMENT))
    assert value[-2:] == b"\x00\x00"  # the state, and no tagged field
    value[-2] = 4
    with pytest.raises(DamagedMetadata, match="4 is not a RemoteLogSegmentState"):
        decode_event(bytes(value))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "cut short"),
        (b"\x00" + encode_event(SEGMENT)[1:], "frame 0"),
        (b"\x01\x07\x00", "key 7"),
        (b"\x01\x00\x01", "version 1"),
        (encode_event(SEGMENT) + b"\x00", "1 bytes after a RemoteLogSegmentMetadataRecord"),
        (encode_snapshot_entry(SEGMENT), "belongs into a snapshot"),
        (bytes(MOST_EVENT_BYTES + 1), "over"),
    ],
)
def test_frame_that_kafka_would_not_write_is_damaged(value: bytes, reason: str) -> None:
    with pytest.raises(DamagedMetadata, match=reason):
        decode_event(value)


def test_segment_record_in_a_snapshot_is_damaged() -> None:
    with pytest.raises(DamagedMetadata, match=RemoteLogSegmentMetadataRecord.__name__):
        decode_snapshot_entry(encode_event(SEGMENT), PARTITION)
