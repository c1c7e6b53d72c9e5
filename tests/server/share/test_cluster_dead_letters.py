"""Dead-letter records whose topic another broker leads, and leaders that die between archiving and writing (KIP-1191)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from odradek.protocol.messages.create_topics import CreatableTopicConfig
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from tests.server.harness.cluster_process import COMBINED, DEADLINE_S, Cluster
from tests.server.harness.cluster_share_groups import coordinator
from tests.server.harness.dead_letter_queue import dead_letter_records
from tests.server.harness.share_groups import configure
from tests.server.harness.share_member import ACCEPT, REJECT, Member

pytestmark = pytest.mark.usefixtures("processes")

TOPIC = GROUP = "shared"
QUEUE = "dlq.shared"
RECORDS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(
        tmp_path,
        [COMBINED] * 3,
        offsets_topic_num_partitions="1",
        share_coordinator_state_topic_num_partitions="1",
    ) as cluster:
        yield cluster


def leader_of(cluster: Cluster) -> str:
    def found() -> str | None:
        running = {node.node_id: node.bootstrap for node in cluster.running()}
        partition = cluster.partitions(TOPIC).get(0)
        return None if partition is None else running.get(partition.leader_id)

    address: str = cluster.until(found, "the partition is led")
    return address


def is_upgraded(cluster: Cluster) -> bool:
    update = FeatureUpdateKey(feature="share.version", max_version_level=2)
    response = cluster.ask_any(UpdateFeaturesRequest(feature_updates=[update]), 2)
    return response is not None and response.error_code == 0


def prepare(cluster: Cluster) -> bytes:
    """Creates a topic with records, led by broker 2, and a queue on broker 3 only. Returns the topic's id."""
    cluster.until(lambda: is_upgraded(cluster), "the level of the feature is raised")
    cluster.create_topic(QUEUE, [[3]], configs=[CreatableTopicConfig("errors.deadletterqueue.group.enable", "true")])
    bootstrap = cluster.bootstrap.split(",")[0]
    configure(bootstrap, GROUP, errors_deadletterqueue_topic_name=QUEUE)
    cluster.create_topic(TOPIC, [[2, 1, 3]])  # a broker that has this topic has the config before it
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    response = cluster.ask_any(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
    topic_id: bytes = response.topics[0].topic_id
    return topic_id


def member_of(cluster: Cluster, topic_id: bytes) -> Member:
    return Member(leader_of(cluster), GROUP, TOPIC, [(topic_id, 0)], coordinator(cluster))


def dead_lettered(cluster: Cluster) -> list[int]:
    """Returns the offsets of the records whose dead-letter records are in the queue."""
    return [dead_letter.offset for dead_letter in dead_letter_records(cluster.bootstrap, QUEUE)]


def test_dead_letter_records_go_to_the_leader_of_their_topic(cluster: Cluster) -> None:
    topic_id = prepare(cluster)
    member = member_of(cluster, topic_id)
    assert cluster.until(member.take, "records")[0][0] == 0
    assert member.acknowledge((0, 1, REJECT), (2, 3, ACCEPT), (4, 5, REJECT)).error_code == 0
    cluster.until(lambda: dead_lettered(cluster) == [0, 1, 4, 5], "the letters are there")
    member.close()


def test_next_leader_sends_dead_letter_records_of_a_killed_leader(cluster: Cluster) -> None:
    topic_id = prepare(cluster)
    member = member_of(cluster, topic_id)
    assert cluster.until(member.take, "records")[0][0] == 0
    cluster.nodes[3].kill()
    # Their archiving state is stored; their dead-letter records cannot be delivered.
    cluster.until(lambda: member.acknowledge((0, RECORDS - 1, REJECT)).error_code == 0, "it is written down")
    cluster.nodes[2].kill()
    member.close()
    cluster.nodes[3].start()
    heir = member_of(cluster, topic_id)

    def are_there() -> bool:
        response = heir.fetch(epoch=0)
        parts = [part for topic in response.responses for part in topic.partitions]
        assert not any(part.acquired_records for part in parts), "what is archiving is for nobody"
        return set(dead_lettered(cluster)) == set(range(RECORDS))

    cluster.until(are_there, "the letters of the one before")
    heir.close()
