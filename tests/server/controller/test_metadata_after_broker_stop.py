"""Metadata from a live broker just after another broker has died or stopped: the new leader, and the listed brokers."""

from __future__ import annotations

import asyncio

import pytest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.server.controller.stopped_brokers import HELD_MS, LISTED_MS
from odradek.testing.simulation import Node, Simulation
from odradek.testing.simulation.cluster.client import Client

from tests.server.harness.simulated_cluster import NODES, TOPIC, led_by_others, nodes, partition


async def notices(node: Node) -> None:
    """Waits until a connection to the dead broker has ended, which is before the image has it fenced."""
    while not node.server.controller.stopped_brokers.leaving:
        assert all(not broker.fenced for broker in node.server.node.metadata.image.cluster.brokers.values()), (
            "it was too late"
        )
        await asyncio.sleep(0.0001)


async def ask(client: Client, node_id: int) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    response: MetadataResponse = await client.ask(("127.0.0.1", 10_000 + node_id), request, 9)
    return response


def brokers(response: MetadataResponse) -> list[int]:
    return [broker.node_id for broker in response.brokers]


def leader(response: MetadataResponse) -> int:
    return response.topics[0].partitions[0].leader_id


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_metadata_waits_for_the_leader_that_comes_and_lists_the_one_that_went_for_a_while(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await led_by_others(cluster)
        client = Client([], TOPIC)
        dead, asked = partition(controller).replicas[:2]
        assert leader(await ask(client, asked)) == dead
        cluster[dead].crash()
        await notices(cluster[asked])
        response = await ask(client, asked)
        assert leader(response) not in (dead, -1)
        assert brokers(response) == list(NODES), "a client that has not moved yet keeps its hold"
        assert dead in response.topics[0].partitions[0].offline_replicas and response.controller_id != dead
        await asyncio.sleep(LISTED_MS / 1000)
        assert brokers(await ask(client, asked)) == [node for node in NODES if node != dead]

    with Simulation(seed) as simulation:
        simulation.run(story())


@pytest.mark.slow
def test_metadata_without_a_controller_returns_last_known_image() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await led_by_others(cluster)
        client = Client([], TOPIC)
        dead, asked = partition(controller).replicas[:2]
        await ask(client, asked)
        controller.crash()
        cluster[dead].crash()
        await notices(cluster[asked])
        began = asyncio.get_running_loop().time()
        assert leader(await ask(client, asked)) == dead
        assert 0 < asyncio.get_running_loop().time() - began < 2 * HELD_MS / 1000

    with Simulation(1) as simulation:
        simulation.run(story())


@pytest.mark.slow
def test_stopped_broker_is_not_listed_in_metadata() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await led_by_others(cluster)
        client = Client([], TOPIC)
        left, asked = partition(controller).replicas[:2]
        await cluster[left].stop()
        response = await ask(client, asked)
        assert leader(response) not in (left, -1) and left not in brokers(response)

    with Simulation(2) as simulation:
        simulation.run(story())
