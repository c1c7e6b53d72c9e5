"""Requests whose partitions stay encoded: they say what the usual decoder finds, and it takes all others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.protocol import encoded_fetch
from odradek.protocol.codec import decode, encode
from odradek.protocol.encoded_fetch import EncodedPartitions, decode_large
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState

from tests.harness.examples import examples

VERSIONS = range(4, 19)
#: A slow machine takes long for an input.
EXAMPLES = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
EVERY = encoded_fetch.LEAST_OF_TOPIC

_int32 = st.integers(-(1 << 31), (1 << 31) - 1)
_int64 = st.integers(-(1 << 63), (1 << 63) - 1)
_partitions = st.lists(
    st.builds(FetchPartition, _int32, _int32, _int64, _int32, _int64, _int32), min_size=EVERY, max_size=20
)
_topics = st.lists(
    st.builds(FetchTopic, st.text(max_size=40), st.binary(min_size=16, max_size=16), _partitions),
    min_size=1,
    max_size=3,
)
_requests = st.builds(
    FetchRequest,
    replica_id=_int32,
    replica_state=st.builds(ReplicaState, _int32, _int64),
    max_wait_ms=_int32,
    min_bytes=_int32,
    max_bytes=_int32,
    isolation_level=st.integers(0, 1),
    session_id=_int32,
    session_epoch=_int32,
    topics=_topics,
    forgotten_topics_data=st.lists(
        st.builds(ForgottenTopic, st.text(max_size=9), st.binary(min_size=16, max_size=16), st.lists(_int32)),
        max_size=2,
    ),
    rack_id=st.text(max_size=9),
)


def request(count: int = EVERY, **fields: Any) -> FetchRequest:
    return FetchRequest(
        topics=[FetchTopic("t", bytes(16), [FetchPartition(index) for index in range(count)])], **fields
    )


def decoded_whole(found: FetchRequest) -> FetchRequest:
    for topic in found.topics:
        assert isinstance(topic.partitions, EncodedPartitions)
        topic.partitions = list(topic.partitions)
    return found


def test_partitions_are_taken_by_their_places_as_from_a_list() -> None:
    """The quorum takes the first one of a request for the metadata partition."""
    found = decode_large(12, encode(request(), 12), 0)
    assert found is not None
    partitions: Any = found.topics[0].partitions
    every = list(request().topics[0].partitions)
    assert [partitions[place] for place in range(EVERY)] == every
    assert partitions[-1] == every[-1]
    assert partitions[1:4] == every[1:4]
    with pytest.raises(IndexError):
        partitions[EVERY]


@pytest.mark.parametrize("version", VERSIONS)
@settings(EXAMPLES, max_examples=examples(20))
@given(made=_requests, before=st.binary(max_size=9))
def test_encoded_request_is_what_the_usual_decoder_finds(version: int, made: FetchRequest, before: bytes) -> None:
    data = before + encode(made, version)
    found = decode_large(version, memoryview(data), len(before))
    if found is not None:
        assert decoded_whole(found) == decode(FetchRequest, version, data, len(before))[0]
    else:
        assert len(encode(FetchRequest(forgotten_topics_data=made.forgotten_topics_data), version)) > 512


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_are_taken_apart_in_several_calls_keep_their_order(version: int) -> None:
    made = request(2 * encoded_fetch._UNPACKED_ONCE + 3)
    found = decode_large(version, encode(made, version), 0)
    assert found is not None
    indexes = [one.partition for one in decoded_whole(found).topics[0].partitions]
    assert indexes == list(range(2 * encoded_fetch._UNPACKED_ONCE + 3))


@pytest.mark.parametrize("version", VERSIONS)
def test_request_that_ends_early_is_left_to_the_usual_decoder(version: int) -> None:
    data = encode(request(rack_id="rack"), version)
    assert decode_large(version, data, 0) is not None
    assert [size for size in range(len(data)) if decode_large(version, data[:size], 0) is not None] == []


@EXAMPLES
@given(data=st.binary(max_size=2000), version=st.sampled_from(VERSIONS))
def test_any_bytes_are_decoded_as_usual_or_left(data: bytes, version: int) -> None:
    found = decode_large(version, data, 0)
    if found is not None:
        assert decoded_whole(found) == decode(FetchRequest, version, data)[0]


@EXAMPLES
@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_changed_bytes_are_decoded_as_usual_or_left(data: st.DataObject, version: int) -> None:
    changed = bytearray(encode(request(20), version))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    found = decode_large(version, changed, 0)
    if found is not None:
        assert decoded_whole(found) == decode(FetchRequest, version, changed)[0]


@pytest.mark.parametrize("version", [17, 18])
def test_partition_with_a_tagged_field_is_left_to_the_usual_decoder(version: int) -> None:
    made = request()
    made.topics[0].partitions[3].replica_directory_id = bytes([7]) * 16
    assert decode_large(version, encode(made, version), 0) is None


def test_more_partitions_than_the_limit_are_left_to_the_usual_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(request(EVERY), 17)
    monkeypatch.setattr(encoded_fetch, "MOST_ENCODED", EVERY)
    assert decode_large(17, data, 0) is not None
    monkeypatch.setattr(encoded_fetch, "MOST_ENCODED", EVERY - 1)
    assert decode_large(17, data, 0) is None


def test_topics_of_few_partitions_are_left_to_the_usual_decoder() -> None:
    few = [FetchTopic("t", bytes(16), [FetchPartition(0)]) for _ in range(100)]
    assert decode_large(17, encode(FetchRequest(topics=few), 17), 0) is None


@pytest.mark.parametrize("count", [1, 511, 512, 513, 2000])
def test_repeated_partition_is_found(count: int) -> None:
    found = decode_large(17, encode(request(max(count, EVERY)), 17), 0)
    assert found is not None and not found.topics[0].partitions.has_repeated()  # type: ignore[attr-defined]
    made = request(max(count, EVERY))
    made.topics[0].partitions[-1].partition = 0
    found = decode_large(17, encode(made, 17), 0)
    assert found is not None and found.topics[0].partitions.has_repeated()  # type: ignore[attr-defined]
