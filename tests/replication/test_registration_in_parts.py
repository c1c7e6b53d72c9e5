"""The registration of a broker with more partitions than an atomic decision may change, and a part of its records."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from odradek.metadata.features import supported_features
from odradek.metadata.image import NO_LEADER, MetadataImage
from odradek.protocol.internal.cluster_metadata import RegisterBrokerRecord, UnregisterBrokerRecord
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.registrations import RegisteredFeature, RegisteredListener
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest
from odradek.protocol.schema import Message
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.result import MAX_RECORDS_PER_REQUEST, ControllerResult
from odradek.server.controller.metadata_batches import RECORDS_PER_BATCH

from tests.replication.controller_transcript import CLUSTER_ID, Transcript, directory_id

PARTITIONS = MAX_RECORDS_PER_REQUEST + 500


def decide(controller: Controller, request: Any, version: int) -> ControllerResult:
    result = controller.handle(request, version)
    if result.records:
        controller.replay(result.records, 1, 0)
    return result


@pytest.fixture(params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Controller:
    """Returns three brokers, the first of which leads and hosts more partitions than one decision may change. With one
    replica the others host nothing."""
    transcript = Transcript()
    transcript.run("> broker 1\n")
    others = "> broker 2\n> broker 3\n"
    if request.param > 1:
        transcript.run(others)
    for number in range(PARTITIONS // 1500):
        topic = CreatableTopic(f"topic-{number}", 1500, request.param)
        assert decide(transcript.controller, CreateTopicsRequest([topic], 1000), 7).records
    if request.param == 1:
        transcript.run(others)
    return transcript.controller


def registration(controller: Controller, broker_id: int, incarnation: bytes) -> BrokerRegistrationRequest:
    features = supported_features()
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=incarnation.ljust(16, b"-"),
        listeners=[RegisteredListener("PLAINTEXT", "b1", 9092, 0)],
        features=[RegisteredFeature(name, low, high) for name, (low, high) in features.items()],
        log_dirs=[directory_id(f"d{broker_id}")],
        previous_broker_epoch=-1,
    )


def next_controller(controller: Controller, committed: Sequence[Message]) -> Controller:
    """Returns the controller that takes over when only these records of the last decision were committed."""
    following = Controller(2, CLUSTER_ID, {}, random.Random(2))
    for _ in following.learn(controller.image):
        pass
    following.load(controller.image, controller.next_offset, 1)
    if committed:
        following.replay(committed, 2, 0)
    return following


def placements(image: MetadataImage) -> dict[Any, Any]:
    """Returns leader, ISR and ELR of each partition."""
    return {
        (name, index): (one.leader, one.isr, one.elr, one.last_known_elr)
        for name, topic in image.topics.by_name.items()
        for index, one in topic.partitions.items()
    }


def unfenced(controller: Controller, broker_id: int) -> MetadataImage:
    broker = controller.image.broker(broker_id)
    assert broker is not None
    heartbeat = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=broker.epoch, current_metadata_offset=controller.next_offset - 1
    )
    assert not decide(controller, heartbeat, 2).response.is_fenced  # type: ignore[attr-defined]
    return controller.image


@pytest.mark.slow
def test_broker_of_more_partitions_than_atomic_decision_registers_after_crash(cluster: Controller) -> None:
    result = cluster.handle(registration(cluster, 1, b"second"), 4)
    assert not getattr(result.response, "error_code", None), result.response
    assert len(result.records) > MAX_RECORDS_PER_REQUEST and not result.atomic
    # The registration is the last record: an image with it has all the others.
    assert [type(record) for record in result.records].index(RegisterBrokerRecord) == len(result.records) - 1


def in_batches(result: ControllerResult) -> list[Sequence[Message]]:
    """Returns the records in the batches of the metadata log."""
    assert not result.atomic
    starts = range(0, len(result.records), RECORDS_PER_BATCH)
    return [result.records[start : start + RECORDS_PER_BATCH] for start in starts]


@pytest.mark.slow
def test_part_of_registration_takes_partitions_only_from_previous_incarnation(cluster: Controller) -> None:
    before = placements(cluster.image)
    old = cluster.image.broker(1)
    result = cluster.handle(registration(cluster, 1, b"second"), 4)
    batches = in_batches(result)
    assert len(batches) == -(-len(result.records) // RECORDS_PER_BATCH)
    for count in (1, len(batches) // 2, len(batches) - 1):
        committed = [record for batch in batches[:count] for record in batch]
        after = next_controller(cluster, committed)
        assert after.image.broker(1) == old, "the previous registration stays until the last record"
        for key, (leader, isr, _, _) in placements(after.image).items():
            assert leader in isr or leader == NO_LEADER
            assert isr in (before[key][1], tuple(b for b in before[key][1] if b != 1))


@pytest.mark.slow
def test_registration_repeated_after_part_of_it_ends_as_whole_one(cluster: Controller) -> None:
    first = cluster.handle(registration(cluster, 1, b"second"), 4)
    batches = in_batches(first)
    whole = next_controller(cluster, first.records)
    expected = placements(unfenced(whole, 1))
    assert all(leader != NO_LEADER for leader, _, _, _ in expected.values())
    for count in (1, len(batches) - 1):
        after = next_controller(cluster, [record for batch in batches[:count] for record in batch])
        # The same process again, as after a change of the controller, or a later one, after another crash.
        incarnation = b"second" if count == 1 else b"third"
        again = decide(after, registration(after, 1, incarnation), 4)
        assert not getattr(again.response, "error_code", None), again.response
        assert placements(unfenced(after, 1)) == expected


@pytest.mark.slow
def test_part_of_unregistration_is_completed_by_next_request(cluster: Controller) -> None:
    result = cluster.handle(UnregisterBrokerRequest(broker_id=1), 0)
    assert not getattr(result.response, "error_code", None), result.response
    assert len(result.records) > MAX_RECORDS_PER_REQUEST
    assert isinstance(result.records[-1], UnregisterBrokerRecord)
    after = next_controller(cluster, result.records[:RECORDS_PER_BATCH])
    assert after.image.broker(1) is not None
    rest = decide(after, UnregisterBrokerRequest(broker_id=1), 0)
    assert len(rest.records) == len(result.records) - RECORDS_PER_BATCH
    assert placements(after.image) == placements(next_controller(cluster, result.records).image)
    assert after.image.broker(1) is None
