"""Dead and slow brokers: three whole nodes in simulated time, which allows exact assertions on times."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest
from odradek.client import probes
from odradek.server.controller import broker_sessions as sessions_module
from odradek.testing.simulation import Node, Simulation

from tests.server.harness.simulated_cluster import NODES, active, controller_of, create_topic, nodes, partition, until

#: Limit after a kill -9 of the leader. Apache Kafka's default is 9 s.
MOVED_WITHIN_S = 0.5
#: Delays from the controller to a slow broker and back. In the first case a probe times out before the broker responds;
#: in the second the broker accepts late.
SLOW_S = [((1.05, 1.3), (0.1, 0.2)), ((0.2, 0.6), (0.2, 0.6))]


def now() -> float:
    return asyncio.get_running_loop().time()


def others(node_id: int) -> list[int]:
    return [other for other in NODES if other != node_id]


async def moved(cluster: dict[int, Node], dead: int) -> float:
    """Kills a broker. Returns the time until every other node's image has another leader."""
    assert all(partition(node).leader == dead for node in cluster.values())
    killed_at = now()
    cluster[dead].crash()
    left = [cluster[node_id] for node_id in others(dead)]
    while any(partition(node).leader in (dead, -1) for node in left):
        assert now() < killed_at + 60, "it does not move"
        await asyncio.sleep(0.001)
    return now() - killed_at


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_leaders_of_a_killed_broker_move_within_half_a_second(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        dead, *left = others(controller)
        await create_topic(cluster, [dead, *left, controller])
        assert await moved(cluster, dead) < MOVED_WITHIN_S
        assert cluster[controller].server.controller.sessions.rejected_brokers == 1

    with Simulation(seed) as simulation:
        simulation.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_leaders_of_a_killed_controller_move_within_half_a_second(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        await create_topic(cluster, [controller, *others(controller)])
        assert await moved(cluster, controller) < MOVED_WITHIN_S
        left = {node_id: cluster[node_id] for node_id in others(controller)}
        assert active(left) is not None

    with Simulation(seed) as simulation:
        simulation.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("there_s", "back_s"), SLOW_S)
def test_a_slow_broker_whose_connections_break_is_not_taken_for_a_dead_one(
    there_s: tuple[float, float], back_s: tuple[float, float], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_gone: list[bool] = []

    async def is_gone(addresses: Collection[tuple[str, int]]) -> bool:
        found_gone.append(await probes.is_gone(addresses))
        return found_gone[-1]

    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        slow, *left = others(controller)
        await create_topic(cluster, [slow, *left, controller])
        epoch = partition(cluster[controller]).leader_epoch
        network, broker_sessions = simulation.network, cluster[controller].server.controller.sessions
        network.slow_down(f"node-{controller}", f"node-{slow}", there_s)
        network.slow_down(f"node-{slow}", f"node-{controller}", back_s)
        monkeypatch.setattr(sessions_module, "is_gone", is_gone)
        for _ in range(8):
            network.reset(f"node-{slow}", f"node-{controller}")
            await asyncio.sleep(6)
            assert active(cluster) is cluster[controller]
            assert (partition(cluster[controller]).leader, partition(cluster[controller]).leader_epoch) == (slow, epoch)
        assert len(found_gone) > 3 and not any(found_gone), "its listeners were asked"
        assert (broker_sessions.rejected_brokers, broker_sessions.expired_sessions) == (0, 0)
        cluster[slow].crash()
        await until(lambda: partition(cluster[controller]).leader not in (slow, -1), "now it is dead")

    with Simulation(seed) as simulation:
        simulation.run(story())
