"""The index of partitions by broker: decisions with the index equal decisions over all partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.metadata.image import EMPTY_IMAGE, NO_LEADER, BrokerImage, PartitionImage, TopicImage
from odradek.replication.controller.brokers_to_partitions import IMBALANCED, BrokersToPartitions
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.state import ControllerState

from tests.harness.examples import examples
from tests.replication.controller_transcript import Transcript

STEPS = 150
BROKERS = (1, 2, 3, 4, 5)
DIRECTORIES = "dirs=\"['a{0}','b{0}']\""


def look_at_all(state: ControllerState, *places: int) -> Iterator[tuple[TopicImage, list[int]]]:
    """Yields all partitions, as without an index."""
    for _, topic in sorted(state.image.topics.by_name.items()):
        indexes = sorted(topic.partitions)
        if IMBALANCED in places:
            indexes = [i for i in indexes if topic.partitions[i].leader != topic.partitions[i].preferred_replica]
        yield topic, indexes


def learned(controller: Controller) -> BrokersToPartitions:
    made = BrokersToPartitions()
    for _ in made.learn(controller.image.topics):
        pass
    return made


class TwoLooks(Transcript):
    """A transcript that decides each request with and without the index, and checks that both results are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.records = 0

    def ask(self, request: Any, version: int) -> list[str]:
        state, rng = self.controller._state, self.controller._state.rng
        assert isinstance(rng, random.Random)
        before = rng.getstate()
        found = self.controller.handle(request, version)
        rng.setstate(before)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ControllerState, "partitions_of", look_at_all)
            assert self.controller.handle(request, version) == found
        rng.setstate(before)
        self.records += len(found.records)
        lines = super().ask(request, version)
        kept = {place: topics for place, topics in state._partitions._indexes.items() if topics}
        assert kept == learned(self.controller)._indexes
        return lines


def draw(rng: random.Random, transcript: Transcript, number: int) -> str:
    """Draws an event of a cluster."""
    image = transcript.controller.image
    broker_id = rng.choice(BROKERS)
    broker = image.broker(broker_id)
    if broker is None:
        return f"broker {broker_id} {DIRECTORIES.format(broker_id)}"
    topics = sorted(image.topics.by_name.values())
    if not topics or rng.random() < 0.2:
        configs = [
            {"name": "unclean.leader.election.enable", "value": rng.choice(["true", "false", "false"])},
            {"name": "min.insync.replicas", "value": rng.choice(["1", "2"])},
        ]
        topic = {
            "name": f"topic-{number}",
            "num_partitions": rng.randint(1, 4),
            "replication_factor": rng.randint(1, 3),
            "configs": configs,
        }
        return f'CreateTopics topics="{[topic]}"'
    return rng.choice((_to_a_broker, _to_a_broker, _to_a_topic))(rng, transcript, broker, rng.choice(topics))


def _to_a_broker(rng: random.Random, transcript: Transcript, broker: BrokerImage, topic: TopicImage) -> str:
    if rng.random() < 0.2:
        lost = [directory for directory in broker.directories[1:] if rng.random() < 0.5]
        return (
            f"BrokerHeartbeat broker_id={broker.id} broker_epoch={broker.epoch} current_metadata_offset={1 << 40} "
            f'want_shut_down={rng.random() < 0.2} offline_log_dirs="{lost}"'
        )
    word = rng.choice(("fence", "fence", "stop", "crash", "restart", "restart", "UnregisterBroker", "elect"))
    if word == "elect":
        return rng.choice(("balance", "elect-unclean", "ListPartitionReassignments topics=None"))
    return f"UnregisterBroker broker_id={broker.id}" if word == "UnregisterBroker" else f"{word} {broker.id}"


def _to_a_topic(rng: random.Random, transcript: Transcript, broker: BrokerImage, topic: TopicImage) -> str:
    index = rng.choice(sorted(topic.partitions))
    partition = topic.partitions[index]
    kind = rng.random()
    if kind < 0.1:
        config = {"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}
        resource = {"resource_type": 2, "resource_name": topic.name, "configs": [config]}
        return f'IncrementalAlterConfigs resources="{[resource]}"'
    if kind < 0.3:
        replicas = rng.sample(BROKERS, rng.randint(1, 3))
        asked = [{"name": topic.name, "partitions": [{"partition_index": index, "replicas": replicas}]}]
        return f'AlterPartitionReassignments topics="{asked}"'
    if kind < 0.4:
        return f'DeleteTopics topics="{[{"name": topic.name}]}"'
    if kind < 0.5:
        return f'CreatePartitions topics="{[{"name": topic.name, "count": len(topic.partitions) + 2}]}"'
    if kind < 0.6:
        placed = [{"topic_id": f"id:{topic.name}", "partitions": [{"partition_index": index}]}]
        directories = [{"id": directory, "topics": placed} for directory in broker.directories[:1]]
        return f'AssignReplicasToDirs broker_id={broker.id} broker_epoch={broker.epoch} directories="{directories}"'
    return _isr(rng, transcript, topic, index, partition)


def _isr(rng: random.Random, transcript: Transcript, topic: TopicImage, index: int, partition: PartitionImage) -> str:
    image = transcript.controller.image
    leader = image.broker(partition.leader)
    if leader is None:
        return "balance"
    members = {partition.leader, *rng.sample(partition.replicas, rng.randint(0, len(partition.replicas)))}
    isr = [
        {"broker_id": member, "broker_epoch": registered.epoch}
        for member in sorted(members)
        if (registered := image.broker(member)) is not None
    ]
    change = {
        "partition_index": index,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr_with_epochs": isr,
    }
    asked = [{"topic_id": f"id:{topic.name}", "partitions": [change]}]
    return f'AlterPartition broker_id={leader.id} broker_epoch={leader.epoch} topics="{asked}"'


@pytest.mark.slow
@pytest.mark.parametrize("elr", [0, 1])
@pytest.mark.parametrize("seed", range(examples(6)))
def test_decisions_with_index_equal_decisions_over_all_partitions(seed: int, elr: int) -> None:
    rng, transcript = random.Random(f"{seed}-{elr}"), TwoLooks()
    transcript.run(f"> features eligible.leader.replicas.version={elr}\n")
    for broker_id in BROKERS:
        transcript.run(f"> broker {broker_id} {DIRECTORIES.format(broker_id)}\n")
    for number in range(STEPS):
        transcript.run(f"> {draw(rng, transcript, number)}\n")
    assert transcript.records > STEPS


@pytest.mark.slow
def test_lost_directory_reconsiders_leaderless_partitions() -> None:
    """The config change allows another broker to lead."""
    transcript = TwoLooks()
    transcript.run("> features eligible.leader.replicas.version=0\n")
    for broker_id in (1, 2, 3):
        transcript.run(f"> broker {broker_id} {DIRECTORIES.format(broker_id)}\n")
    topic = {"name": "t", "assignments": [{"partition_index": 0, "broker_ids": [1, 2, 3]}]}
    topic |= {"num_partitions": -1, "replication_factor": -1}
    transcript.run(f'> CreateTopics topics="{[topic]}"\n')
    placed = [{"topic_id": "id:t", "partitions": [{"partition_index": 0}]}]
    broker = transcript.controller.image.broker(2)
    assert broker is not None
    directories = [{"id": broker.directories[0], "topics": placed}]
    transcript.run(
        f'> AssignReplicasToDirs broker_id=2 broker_epoch={broker.epoch} directories="{directories}"\n'
        "> fence 2\n> fence 3\n> fence 1\n> restart 2\n> restart 3\n"
    )
    config = {"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    transcript.run(f'> IncrementalAlterConfigs resources="{[resource]}"\n')
    partition, broker = transcript.controller.image.partition("t", 0), transcript.controller.image.broker(2)
    assert partition is not None and partition.leader == NO_LEADER and broker is not None
    said = transcript.run(
        f"> BrokerHeartbeat broker_id=2 broker_epoch={broker.epoch} current_metadata_offset={1 << 40} "
        f'offline_log_dirs="{list(broker.directories[:1])}"\n'
    )
    assert "leader=3 leader_recovery_state=1" in said


@pytest.mark.slow
def test_prepared_topics_are_not_indexed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript()
    transcript.run("> broker 1\n> broker 2\n")
    for name in ("one", "t.wo"):
        topic = {"name": name, "num_partitions": 3, "replication_factor": 2}
        transcript.run(f'> CreateTopics topics="{[topic]}"\n')
    image, other = transcript.controller.image, Controller(2, "cluster", {}, random.Random(1))
    steps = other.learn(image)
    assert sum(1 for _ in steps) == 2
    monkeypatch.setattr(BrokersToPartitions, "learn", lambda self, topics: pytest.fail("it is known"))
    other.load(image._replace(offset=image.offset + 1), image.offset + 2, 1)
    other.load(other.image, image.offset + 5, 1)
    assert other._state._partitions._indexes == transcript.controller._state._partitions._indexes
    assert other._state.colliding_names == transcript.controller._state.colliding_names == {"t_wo": {"t.wo"}}
    monkeypatch.undo()
    other.load(EMPTY_IMAGE, 0, 1)
    assert not other._state._partitions._indexes and not other._state.colliding_names
