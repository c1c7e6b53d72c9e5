"""Three nodes that are brokers and controllers, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.metadata.image import PartitionImage
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import InitialVoter, format_directories
from odradek.testing.simulation import Node, Simulation

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NODES = (1, 2, 3)
DEADLINE_S = 120
TOPIC = "orders"


def nodes(simulation: Simulation, *, voters_in_log: bool = False, **overrides: str) -> dict[int, Node]:
    """Returns formatted nodes, not started. The voters are in the configuration or in the log (KIP-853)."""
    places = {one: ("127.0.0.1", 20_000 + one) for one in NODES}
    in_log = [InitialVoter(one, *place, bytes([one]) * 16) for one, place in places.items()] if voters_in_log else None
    made = {}
    for node_id in NODES:
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": listeners(node_id, places[node_id][1]),
            "controller.listener.names": "CONTROLLER",
            **_quorum(places, in_log=voters_in_log),
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        node = made[node_id] = simulation.node(f"node-{node_id}", properties)
        config = BrokerConfig({**properties, "log.dirs": str(node.directory)})
        format_directories(config, CLUSTER_ID, ignore_formatted=True, initial_voters=in_log)
    return made


def listeners(node_id: int, controller_port: int) -> str:
    return f"PLAINTEXT://127.0.0.1:{10_000 + node_id},CONTROLLER://127.0.0.1:{controller_port}"


def _quorum(places: dict[int, tuple[str, int]], *, in_log: bool) -> dict[str, str]:
    if in_log:
        return {"controller.quorum.bootstrap.servers": ",".join(f"{host}:{port}" for host, port in places.values())}
    return {"controller.quorum.voters": ",".join(f"{one}@{host}:{port}" for one, (host, port) in places.items())}


async def start(cluster: dict[int, Node]) -> None:
    await asyncio.gather(*(node.start() for node in cluster.values()))


async def until(holds: Callable[[], object], what: str) -> None:
    """Waits until the condition holds. Fails after DEADLINE_S of simulated time."""
    over = asyncio.get_running_loop().time() + DEADLINE_S
    while not holds():
        assert asyncio.get_running_loop().time() < over, what
        await asyncio.sleep(0.01)


def active(cluster: dict[int, Node]) -> Node | None:
    found = [node for node in cluster.values() if node.server.controller.driver.is_active]
    return found[0] if len(found) == 1 else None


async def controller_of(cluster: dict[int, Node]) -> int:
    """Starts all nodes, and returns the id of the active controller."""
    await start(cluster)
    await until(lambda: active(cluster), "one of them is active")
    return next(node_id for node_id, node in cluster.items() if node is active(cluster))


async def create_topic(cluster: dict[int, Node], replicas: list[int], partitions: int = 1, **configs: str) -> None:
    """Creates `TOPIC` with equal partitions. Returns when every image has it and all replicas of partition 0 are in sync."""
    controller = active(cluster)
    assert controller is not None
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    assignments = [CreatableReplicaAssignment(index, replicas) for index in range(partitions)]
    topic = CreatableTopic(TOPIC, -1, -1, assignments, settings)
    controller.server.controller.driver.submit(CreateTopicsRequest([topic], 10_000), 7, lambda response: None)
    await until(
        lambda: all(
            (image := node.server.node.metadata.image).topic(TOPIC)
            and all(not one.fenced for one in image.cluster.brokers.values())
            for node in cluster.values()
        ),
        "all know the topic",
    )
    await until(lambda: len(partition(controller).isr) == len(replicas), "all are in sync")


async def led_by_others(cluster: dict[int, Node]) -> Node:
    """Creates a topic whose only partition another node leads. Returns the active controller."""
    controller = await controller_of(cluster)
    await create_topic(cluster, [*(node_id for node_id in NODES if node_id != controller), controller])
    return cluster[controller]


def partition(node: Node) -> PartitionImage:
    """Returns the partition in a node's metadata image."""
    return node.server.node.metadata.image.topic(TOPIC).partitions[0]
