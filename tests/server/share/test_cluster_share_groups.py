"""Share groups on three brokers: records, groups and states are on different brokers, and survive a killed broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from odradek.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.wire import WireClient
from tests.server.harness.cluster_process import COMBINED, DEADLINE_S, Cluster
from tests.server.harness.cluster_share_groups import GROUP, TOPIC, coordinator
from tests.server.harness.share_groups import configure
from tests.server.harness.share_member import ACCEPT, Member

pytestmark = pytest.mark.usefixtures("processes")

ASSIGNMENTS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
RECORDS = 9


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(
        tmp_path,
        [COMBINED] * len(ASSIGNMENTS),
        offsets_topic_num_partitions="3",
        share_coordinator_state_topic_num_partitions="3",
    ) as cluster:
        yield cluster


def produce(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for index in range(len(ASSIGNMENTS)):
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number, partition=index)
    assert producer.flush(DEADLINE_S) == 0


def topic_id(cluster: Cluster) -> bytes:
    response = cluster.ask_any(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
    found: bytes = response.topics[0].topic_id
    return found


def leader_of(cluster: Cluster, index: int) -> str:
    def found() -> str | None:
        running = {node.node_id: node.bootstrap for node in cluster.running()}
        partition = cluster.partitions(TOPIC).get(index)
        return None if partition is None else running.get(partition.leader_id)

    address: str = cluster.until(found, f"partition {index} is led")
    return address


def lags(cluster: Cluster) -> list[int]:
    """Returns the group's lag in each partition, whichever broker leads it."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    with WireClient(coordinator(cluster)) as client:
        response = client.call(DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
    return [part.lag for topic in response.groups[0].topics for part in topic.partitions]


def test_acknowledgements_survive_leader_failure(cluster: Cluster) -> None:
    configure(cluster.bootstrap.split(",")[0], GROUP)
    cluster.create_topic(TOPIC, ASSIGNMENTS)  # a broker that has this topic has the config before it
    produce(cluster)
    shared = topic_id(cluster)
    for index in range(len(ASSIGNMENTS)):
        member = Member(leader_of(cluster, index), GROUP, TOPIC, [(shared, index)], coordinator(cluster))
        assert cluster.until(member.take, "records") != []
        assert member.acknowledge((0, 4, ACCEPT)).error_code == 0
        member.close()
    cluster.until(lambda: lags(cluster) == [RECORDS - 5] * len(ASSIGNMENTS), "each is as far behind")
    cluster.nodes[1].kill()
    for index in range(len(ASSIGNMENTS)):
        member = Member(leader_of(cluster, index), GROUP, TOPIC, [(shared, index)], coordinator(cluster))

        def taken(member: Member = member) -> list[int]:
            response = member.fetch(epoch=0)
            parts = [part for topic in response.responses for part in topic.partitions]
            return [o for p in parts for a in p.acquired_records for o in range(a.first_offset, a.last_offset + 1)]

        assert cluster.until(taken, "what is left") == list(range(5, RECORDS))
        member.session_epoch = 1
        assert cluster.until(lambda m=member: m.acknowledge((5, 8, ACCEPT)).error_code == 0, "it is done")  # type: ignore[misc]
        member.close()
    cluster.until(lambda: lags(cluster) == [0] * len(ASSIGNMENTS), "all is done")
