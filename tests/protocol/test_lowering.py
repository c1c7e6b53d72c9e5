"""The lowered code and the interpreted construct codecs are equivalent: they encode and decode the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
from collections.abc import Callable, Iterator

import pytest
from odradek.protocol import primitives as p
from odradek.protocol.codec import (
    DECODE_FAULTS,
    Arrays,
    decode,
    encode,
    encode_pieces,
    interpreted_decode,
    interpreted_encode,
    stepwise_decoder,
    stepwise_encoder,
)
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.leader_id_and_epoch import LeaderIdAndEpoch
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from odradek.protocol.schema import Message
from odradek.protocol.tree import UnsupportedVersionOfMessage, construct_tree

from tests.harness.examples import examples
from tests.protocol.random_messages import random_message
from tests.protocol.steps import result_of
from tests.protocol.tables import every_version, messages, versions
from tests.protocol.walk import walk

NAMES = sorted(messages())


def random_messages(name: str, count: int) -> Iterator[tuple[type[Message], int, Message]]:
    """Yields that many messages of each version, the same in each run: Hypothesis takes longer than the codecs."""
    made = messages()[name]
    for number in range(count):
        rng = random.Random(f"{name} {number}")
        for version in versions(made):
            yield made, version, random_message(rng, made, version)


def test_lowered_codec_equals_interpreted_codec() -> None:
    def check(name: str) -> None:
        for made, version, message in random_messages(name, examples(8)):
            data = encode(message, version)
            assert data == interpreted_encode(message, version) == b"".join(encode_pieces(message, version))
            assert decode(made, version, data) == interpreted_decode(made, version, data) == (message, len(data))

    walk(NAMES, check)


def test_stepwise_codecs_equal_lowered_codecs() -> None:
    def check(name: str) -> None:
        for made, version, message in random_messages(name, examples(4)):
            data = encode(message, version)
            assert result_of(stepwise_decoder(made, version)(memoryview(b"before" + data), 6, {})) == (
                message,
                len(data) + 6,
            )
            pieces: list[bytes] = []
            result_of(stepwise_encoder(made, version)(message, pieces.append))
            assert b"".join(pieces) == data

    walk(NAMES, check)


def test_arrays_of_a_torn_message_are_in_the_hands_of_the_caller() -> None:
    topics = [MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(partition_index=9)] * 7)] * 5
    message = MetadataResponse(brokers=[MetadataResponseBroker(host="h")] * 3, topics=topics)
    arrays: Arrays = {}
    with pytest.raises(DECODE_FAULTS):
        result_of(stepwise_decoder(MetadataResponse, 12)(encode(message, 12)[:-40], 0, arrays))
    lengths = {type(array[0]): len(array) for array in arrays.values() if array}
    assert lengths == {MetadataResponseBroker: 3, MetadataResponseTopic: 4, MetadataResponsePartition: 5}


@pytest.mark.parametrize("count", [0, 1, 16, 17, 2048, 2049, 10_000])
def test_long_number_arrays_take_several_steps(count: int) -> None:
    message = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()])])
    message.topics[0].partitions[0].replica_nodes = list(range(count))
    for version in (8, 12):
        data = encode(message, version)
        pieces: list[bytes] = []
        assert len(list(stepwise_encoder(MetadataResponse, version)(message, pieces.append))) >= count // 2048
        assert b"".join(pieces) == data
        assert result_of(stepwise_decoder(MetadataResponse, version)(data, 0, {})) == (message, len(data))


def test_default_message_survives_round_trip_in_every_version() -> None:
    def check(name: str) -> None:
        made = messages()[name]
        for version in versions(made):
            data = encode(made(), version)
            assert data == interpreted_encode(made(), version)
            assert decode(made, version, data) == (made(), len(data))

    walk(NAMES, check)


def test_messages_decode_at_any_position_of_any_buffer() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    data = b"before" + encode(message, 12) + b"after"
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
        assert decode(MetadataRequest, 12, buffer, 6) == (message, len(data) - 5)


def test_records_decode_as_views_and_encode_uncopied() -> None:
    data = bytearray(encode(random_message(random.Random(3), ProduceRequest, 9), 9))
    request, _ = decode(ProduceRequest, 9, data)
    found = [partition.records for topic in request.topic_data for partition in topic.partition_data]
    views = [records for records in found if records is not None]
    assert views and all(isinstance(view, memoryview) and view.obj is data for view in views)
    pieces = encode_pieces(request, 9)
    assert all(any(piece is view for piece in pieces) for view in views if len(view))


def test_decoded_message_shares_no_mutable_default() -> None:
    """Checks that changing one message changes no other."""
    data = encode(FetchResponse(), 17)
    first, second = decode(FetchResponse, 17, data)[0], decode(FetchResponse, 17, data)[0]
    first.node_endpoints.append(None)  # type: ignore[arg-type]
    assert second.node_endpoints == [] and FetchResponse().node_endpoints == []
    assert decode(FetchResponse, 17, data)[0].node_endpoints == []


def test_unknown_version_raises_unsupported_version() -> None:
    with pytest.raises(UnsupportedVersionOfMessage):
        encode(MetadataResponse(), 14)
    with pytest.raises(UnsupportedVersionOfMessage):
        decode(MetadataResponse, -1, b"")


@pytest.mark.parametrize(
    "field", ["None where a value is needed", "a number that is too large", "a text that is too long"]
)
def test_invalid_value_raises_in_both_encoders(field: str) -> None:
    message: Message = {
        "None where a value is needed": MetadataRequest(topics=[MetadataRequestTopic(name=None)]),
        "a number that is too large": MetadataResponse(throttle_time_ms=1 << 31),
        "a text that is too long": MetadataResponse(cluster_id="x" * 32768),
    }[field]
    for way in (encode, interpreted_encode):
        with pytest.raises(Exception):  # noqa: B017  (any exception: callers never encode such values on purpose)
            way(message, 9)


def test_no_array_has_zero_size_elements() -> None:
    """Otherwise a count could request endless elements."""
    for made, version in every_version():
        for codec in sequences(construct_tree(made, version)):
            assert p.smallest_size(codec.element) > 0


def sequences(codec: object) -> list[p.Sequence]:
    if isinstance(codec, p.Structure):
        members = [*codec.members, *codec.tagged.values()]
        return [found for member in members for found in sequences(member.codec)]
    if isinstance(codec, p.Sequence):
        return [codec, *sequences(codec.element)]
    return sequences(codec.element) if isinstance(codec, p.Nullable) else []


def test_default_structure_is_shared_and_immutable() -> None:
    first, second = PartitionProduceResponse(), PartitionProduceResponse()
    assert first.current_leader is second.current_leader
    with pytest.raises(AttributeError, match="assign a new one"):
        first.current_leader.leader_id = 3
    first.current_leader = LeaderIdAndEpoch(leader_id=3)
    assert second.current_leader == LeaderIdAndEpoch() == PartitionProduceResponse().current_leader


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, dataclasses.replace, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copy_of_default_structure_is_mutable(copied: Callable[[object], LeaderIdAndEpoch]) -> None:
    made = copied(PartitionProduceResponse().current_leader)
    assert type(made) is LeaderIdAndEpoch and made == LeaderIdAndEpoch()
    made.leader_id = 3
    assert PartitionProduceResponse().current_leader.leader_id == -1
