"""Leadership of a partition moves to another broker and back: three whole nodes in simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.simulation import Node, Simulation
from odradek.testing.simulation.cluster.client import Client

from tests.server.harness.data_path import batch_of
from tests.server.harness.simulated_cluster import NODES, TOPIC, controller_of, create_topic, nodes, partition, until

PRODUCE_VERSION, PREFERRED = 9, 0


async def move(cluster: dict[int, Node], controller: int, leader: int) -> None:
    """Moves leadership to `leader`. Returns when every node's image has the new leader."""
    replicas = [leader, *(node_id for node_id in NODES if node_id != leader)]
    submit = cluster[controller].server.controller.driver.submit
    topics = [ReassignableTopic(TOPIC, [ReassignablePartition(0, replicas)])]
    submit(AlterPartitionReassignmentsRequest(topics=topics), 1, lambda _: None)
    await until(lambda: partition(cluster[controller]).replicas == tuple(replicas), "its replicas stand in that order")
    submit(ElectLeadersRequest(PREFERRED, [ElectLeadersTopic(TOPIC, [0])]), 2, lambda _: None)
    await until(lambda: all(partition(node).leader == leader for node in cluster.values()), f"{leader} leads")
    hosted = cluster[leader].server.partitions.hosted.get((TOPIC, 0))
    await until(lambda: hosted.is_leader and len(hosted.role.isr) == len(NODES), "the others follow")


def test_a_producer_that_wrote_elsewhere_meanwhile_goes_on_where_it_was_refused() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        await create_topic(cluster, list(NODES))
        client = Client([("127.0.0.1", 10_000 + node_id) for node_id in NODES], TOPIC)

        async def produce(node_id: int, sequence: int) -> Any:
            """Sends a Produce. The client has one connection to each node."""
            now_ms = int(asyncio.get_running_loop().time() * 1000)
            batch = batch_of(b"v", timestamp=now_ms, producer_id=7, producer_epoch=0, base_sequence=sequence)
            data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, batch)])]
            request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data)
            response = await client.ask(("127.0.0.1", 10_000 + node_id), request, PRODUCE_VERSION, "produce")
            return response.responses[0].partition_responses[0]

        first, second, _ = NODES
        assert (await produce(first, 0)).error_code == 0
        await move(cluster, controller, second)
        assert (await produce(first, 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await produce(second, 1)).base_offset == 1
        await move(cluster, controller, first)
        reported = await produce(first, 2)
        assert (reported.error_code, reported.base_offset) == (0, 2), "nothing is missing before it"

    with Simulation(3) as simulation:
        simulation.run(story())
