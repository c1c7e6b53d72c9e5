"""Planned stops of brokers with clients, and what clients read from a broker that has just started."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.server.controller.broker_lifecycle import PROBE_CONTROLLERS_MS
from odradek.testing.simulation import Node, Simulation
from odradek.testing.simulation.cluster.client import Client

from tests.server.harness.simulated_cluster import (
    NODES,
    TOPIC,
    controller_of,
    create_topic,
    led_by_others,
    nodes,
    partition,
    until,
)

pytestmark = pytest.mark.usefixtures("processes")

HEARTBEAT_INTERVAL_S = 2.0
#: Leaders move, the metadata reaches all brokers, and the logs close.
HAND_OVER_S = 0.5


def address(node_id: int) -> tuple[str, int]:
    return "127.0.0.1", 10_000 + node_id


async def metadata(client: Client, node_id: int) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    return await client.ask(address(node_id), request, 9)


async def error_of_leader(client: Client, node_id: int) -> int:
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=-1)])])
    response = await client.ask(address(node_id), request, 7)
    return int(response.topics[0].partitions[0].error_code)


async def error_of_coordinator(client: Client, node_id: int) -> int:
    return int((await client.ask(address(node_id), HeartbeatRequest("g", 1, "m"), 4)).error_code)


async def stopped(node: Node) -> float:
    """Stops the node. Returns how long that took, in simulated seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await node.stop()
    return loop.time() - began


async def led(cluster: dict[int, Node]) -> tuple[int, int]:
    """Returns the leader of the topic's partition, which is not the controller, and another node."""
    controller = await led_by_others(cluster)
    return tuple(partition(controller).replicas[:2])  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(4))
def test_stopping_leader_answers_its_clients_for_one_heartbeat_interval(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        leader, other = await led(cluster)
        client = Client([], TOPIC)
        assert await error_of_leader(client, leader) == ErrorCode.NONE
        began = asyncio.get_running_loop().time()
        stop = asyncio.create_task(stopped(cluster[leader]))
        await until(lambda: partition(cluster[other]).leader != leader, "the leader moves")
        assert asyncio.get_running_loop().time() - began < HAND_OVER_S, "leaders move at once"
        while asyncio.get_running_loop().time() - began < HEARTBEAT_INTERVAL_S:
            assert await error_of_leader(client, leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert await error_of_coordinator(client, leader) == ErrorCode.NOT_COORDINATOR
            for node_id in (leader, other):
                listed = await metadata(client, node_id)
                assert [broker.node_id for broker in listed.brokers] == list(NODES)
                assert listed.topics[0].partitions[0].leader_id not in (leader, -1)
            await asyncio.sleep(0.1)
        assert HEARTBEAT_INTERVAL_S <= await stop < HEARTBEAT_INTERVAL_S + HAND_OVER_S
        assert leader not in [broker.node_id for broker in (await metadata(client, other)).brokers]

    with Simulation(seed) as simulation:
        simulation.run(story())


def test_interval_of_the_configuration_is_used() -> None:
    async def story() -> None:
        cluster = nodes(simulation, broker_heartbeat_interval_ms="700")
        leader, _ = await led(cluster)
        client = Client([], TOPIC)
        await error_of_leader(client, leader)
        assert 0.7 <= await stopped(cluster[leader]) < 0.7 + HAND_OVER_S

    with Simulation(1) as simulation:
        simulation.run(story())


def test_stop_ends_when_the_last_client_leaves() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        leader, _ = await led(cluster)
        client = Client([], TOPIC)
        for lane in ("a", "b"):
            await client.ask(address(leader), HeartbeatRequest("g", 1, "m"), 4, lane)
        stop = asyncio.create_task(stopped(cluster[leader]))
        await asyncio.sleep(0.6)
        client._drop((address(leader), "a"))
        await asyncio.sleep(0.4)
        assert not stop.done(), "a client is still there"
        client._drop((address(leader), "b"))
        assert 1.0 <= await stop < 1.0 + HAND_OVER_S

    with Simulation(1) as simulation:
        simulation.run(story())


def test_broker_without_clients_stops_at_once() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        leader, other = await led(cluster)
        assert await stopped(cluster[leader]) < HAND_OVER_S
        assert partition(cluster[other]).leader not in (leader, -1)

    with Simulation(1) as simulation:
        simulation.run(story())


def test_broker_that_leads_nothing_stops_at_once() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        leader, follower = (node_id for node_id in NODES if node_id != controller)
        await create_topic(cluster, [leader, controller])
        client = Client([], TOPIC)
        assert await error_of_coordinator(client, follower) == ErrorCode.NOT_COORDINATOR
        assert await stopped(cluster[follower]) < HAND_OVER_S

    with Simulation(1) as simulation:
        simulation.run(story())


def test_broker_without_another_one_stops_at_once() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        others = [node_id for node_id in NODES if node_id != controller]
        await create_topic(cluster, [controller, others[0]])
        client = Client([], TOPIC)
        assert await error_of_leader(client, controller) == ErrorCode.NONE
        for node_id in others:
            assert await stopped(cluster[node_id]) < HAND_OVER_S
        # No majority of the controllers runs, and a probe finds that.
        assert await stopped(cluster[controller]) < 2 * PROBE_CONTROLLERS_MS / 1000

    with Simulation(1) as simulation:
        simulation.run(story())


@pytest.mark.parametrize("seed", range(4))
def test_first_metadata_of_a_broker_that_starts_lists_the_broker(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        leader, other = await led(cluster)
        await cluster[leader].stop()
        client = Client([], TOPIC)
        start = asyncio.create_task(cluster[leader].start())
        first = None
        while first is None:
            try:
                first = await metadata(client, leader)
            except ConnectionError:
                await asyncio.sleep(0.0001)
        fenced = cluster[other].server.node.metadata.image.broker(leader).fenced  # type: ignore[union-attr]
        assert fenced, "the first response came too late to show anything"
        assert [broker.node_id for broker in first.brokers] == list(NODES)
        await start

    with Simulation(seed) as simulation:
        simulation.run(story())
