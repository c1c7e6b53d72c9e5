"""Three nodes that are brokers and controllers, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.server.config import BrokerConfig
from odradek.server.formatting import format_directories
from odradek.server.testing.simulation import Node, Simulation

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NODES = (1, 2, 3)
DEADLINE_S = 120


def nodes(simulation: Simulation, **overrides: str) -> dict[int, Node]:
    """Formatted, and not started."""
    made = {}
    for node_id in NODES:
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{10_000 + node_id},CONTROLLER://127.0.0.1:{20_000 + node_id}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{20_000 + one}" for one in NODES),
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        node = made[node_id] = simulation.node(f"node-{node_id}", properties)
        config = BrokerConfig({**properties, "log.dirs": str(node.directory)})
        format_directories(config, CLUSTER_ID, ignore_formatted=True)
    return made


async def start(cluster: dict[int, Node]) -> None:
    await asyncio.gather(*(node.start() for node in cluster.values()))


async def until(holds: Callable[[], object], what: str) -> None:
    """In simulated time: what never comes to hold fails after two minutes that take no time."""
    over = asyncio.get_running_loop().time() + DEADLINE_S
    while not holds():
        assert asyncio.get_running_loop().time() < over, what
        await asyncio.sleep(0.01)


def active(cluster: dict[int, Node]) -> Node | None:
    found = [node for node in cluster.values() if node.server.controller.is_active]
    return found[0] if len(found) == 1 else None
