"""A controller restarts on a new port: it reports the port to the others, and the quorum continues with it (KIP-853)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.testing.simulation import Simulation
from odradek.testing.simulation.cluster.client import Client, Unreachable

from tests.server.harness.simulated_cluster import (
    NODES,
    TOPIC,
    active,
    controller_of,
    create_topic,
    listeners,
    nodes,
    until,
)

NEW_PORT = 30_000


async def controller_ports(client: Client, asked: int) -> dict[int, int]:
    """Returns the ports at which the quorum reaches its voters, from the leader's response through a broker."""
    request = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    try:
        response: Any = await client.ask(("127.0.0.1", 10_000 + asked), request, 2)
    except Unreachable:
        return {}
    return {node.node_id: node.listeners[0].port for node in response.nodes}


async def ports_are(client: Client, asked: int, wanted: dict[int, int]) -> None:
    async with asyncio.timeout(60):
        while await controller_ports(client, asked) != wanted:  # noqa: ASYNC110 - time is simulated
            await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_controller_that_comes_back_on_another_port_is_reached_there(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation, voters_in_log=True)
        controller = await controller_of(cluster)
        moved, stays = (node_id for node_id in NODES if node_id != controller)
        client = Client([], TOPIC)
        ports = {node_id: 20_000 + node_id for node_id in NODES}
        assert await controller_ports(client, stays) == ports
        cluster[moved].crash()
        cluster[stays].crash()  # the next majority needs the moved controller
        cluster[moved]._properties["listeners"] = listeners(moved, NEW_PORT)
        await cluster[moved].start()
        ports[moved] = NEW_PORT
        await ports_are(client, moved, ports)
        await cluster[stays].start()
        await ports_are(client, stays, ports)
        await until(lambda: active(cluster), "one of them is active")
        led = next(node_id for node_id, node in cluster.items() if node is active(cluster))
        cluster[led].crash()
        left = {node_id: node for node_id, node in cluster.items() if node_id != led}
        await until(lambda: active(left), "those that are left reach each other")
        await cluster[led].start()
        await create_topic(cluster, list(NODES))

    with Simulation(seed) as simulation:
        simulation.run(story())
