"""Moving leaderships off a broker in parts: the result equals that of one large decision."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.replication.controller.brokers import fencing_records
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.leadership import MAX_MOVES
from odradek.replication.controller.maintenance import FenceBrokerRequest, MoveLeadersRequest

from tests.replication.controller_transcript import Transcript

PARTITIONS = 2000


def decide(controller: Controller, request: Any, version: int = 2) -> Any:
    result = controller.handle(request, version)
    if result.records:
        controller.replay(result.records, 1, 0)
    return result


@pytest.fixture
def cluster() -> Controller:
    """Returns four brokers, a topic with three replicas and one with a single replica."""
    transcript = Transcript()
    transcript.run("> broker 1\n> broker 2\n> broker 3\n> broker 4\n")
    for topic in (CreatableTopic("three", PARTITIONS, 3), CreatableTopic("one", 40, 1)):
        assert decide(transcript.controller, CreateTopicsRequest([topic], 1000), 7).records
    return transcript.controller


def epoch(controller: Controller, broker_id: int) -> int:
    broker = controller.image.broker(broker_id)
    assert broker is not None
    return broker.epoch


def of(controller: Controller, topic: str) -> dict[int, Any]:
    found = controller.image.topic(topic)
    assert found is not None
    return dict(found.partitions)


def test_no_decision_moves_more_than_maximum(cluster: Controller) -> None:
    request = MoveLeadersRequest(broker_id=1, broker_epoch=epoch(cluster, 1))
    counts = []
    while records := decide(cluster, request).records:
        counts.append(len(records))
    assert max(counts) == MAX_MOVES and len(counts) == 4
    partitions = [*of(cluster, "three").values(), *of(cluster, "one").values()]
    assert not any(partition.leader == 1 for partition in partitions)
    assert not any(1 in partition.isr for partition in of(cluster, "three").values())


def test_parts_lead_to_same_result_as_one_decision(cluster: Controller) -> None:
    whole = Controller(1, "whole", {}, cluster._state.rng)
    whole.load(cluster.image, cluster.next_offset, 0)
    fence = FenceBrokerRequest(broker_id=1, broker_epoch=epoch(cluster, 1))
    broker = whole.image.broker(1)
    assert broker is not None
    whole.replay(list(fencing_records(whole._state, broker)), 1, 0)
    counts = []
    while records := decide(cluster, fence).records:
        counts.append(len(records))
    assert of(cluster, "three") == of(whole, "three")
    assert of(cluster, "one") == of(whole, "one")
    assert counts[:-1] == [MAX_MOVES] * (len(counts) - 1) and len(counts) == 4
    assert cluster.image.broker(1) == whole.image.broker(1)


def test_stopping_broker_waits_until_it_leads_nothing(cluster: Controller) -> None:
    cluster.sessions.begin(cluster.image, 0)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch(cluster, 1), current_metadata_offset=1 << 40, want_shut_down=True
    )
    parts = 0
    for broker_id in (1, 2, 3, 4):
        cluster.sessions.heard(broker_id, epoch(cluster, broker_id), 1 << 40, 0)
    while not (result := decide(cluster, request)).response.should_shut_down:
        assert 0 < len(result.records) <= MAX_MOVES + 1
        parts += 1
    assert parts == 4
    assert not any(partition.leader == 1 for partition in of(cluster, "three").values())


def test_broker_may_stop_once_others_have_last_part(cluster: Controller) -> None:
    sessions = cluster.sessions
    sessions.begin(cluster.image, 0)
    broker = cluster.image.broker(1)
    assert broker is not None
    sessions.moved(1, 50)
    sessions.shuts_down(1, 100)
    sessions.shuts_down(1, 300)
    sessions.moved(1, 200)
    for broker_id in (2, 3, 4):
        sessions.heard(broker_id, epoch(cluster, broker_id), 199, 0)
    assert not sessions.may_stop(broker, cluster.image)
    for broker_id in (2, 3, 4):
        sessions.heard(broker_id, epoch(cluster, broker_id), 200, 0)
    assert sessions.may_stop(broker, cluster.image)


def test_new_topics_without_configs_share_defaults_in_lists_of_their_own_until_one_changes(cluster: Controller) -> None:
    made = cluster.handle(CreateTopicsRequest([CreatableTopic(f"new-{n}", 1, 1) for n in range(3)], 1000), 7)
    first, *others = [topic.configs for topic in made.response.topics]  # type: ignore[attr-defined]
    assert len(first) > 20
    for configs in others:
        assert configs is not first, "the owner of a response empties its lists"
        assert all(one is shared for one, shared in zip(configs, first, strict=True))
    changed = [AlterableConfig("log.retention.ms", 0, "1234")]
    decide(cluster, IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", changed)]), 1)
    again = cluster.handle(CreateTopicsRequest([CreatableTopic("newer", 1, 1)], 1000), 7)
    (topic,) = again.response.topics  # type: ignore[attr-defined]
    assert {config.name: config.value for config in topic.configs}["retention.ms"] == "1234"
