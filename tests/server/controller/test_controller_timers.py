"""Periodic tasks of a running controller: three whole nodes in simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.metadata.image import NO_LEADER, TOPIC_RESOURCE
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.testing.simulation import Node, Simulation

from tests.server.harness.data_path import batch_of
from tests.server.harness.simulated_cluster import NODES, TOPIC, controller_of, create_topic, nodes, partition, until

EVERY_S = 5
#: Time in which a decision reaches all nodes.
A_MOMENT_S = 0.5


def now() -> float:
    return asyncio.get_running_loop().time()


def others(node_id: int) -> list[int]:
    return [other for other in NODES if other != node_id]


def elections(controller: Node) -> Any:
    return controller.server.controller.driver.controller.elections


def hosted(node: Node) -> HostedPartition:
    found = node.server.partitions.hosted.get((TOPIC, 0))
    assert found is not None
    return found


def write(node: Node, value: bytes) -> None:
    now_ms = node.server.node.clock.now_ms()
    assert hosted(node).append(batch_of(value, timestamp=now_ms), now_ms).error == 0


@pytest.mark.slow
@pytest.mark.parametrize("balances", [True, False])
def test_leadership_goes_back_to_the_preferred_replica_at_the_next_look(balances: bool) -> None:
    async def story() -> None:
        settings = {"leader_imbalance_check_interval_seconds": str(EVERY_S)}
        cluster = nodes(simulation, auto_leader_rebalance_enable=str(balances).lower(), **settings)
        controller_id = await controller_of(cluster)
        controller, (preferred, second) = cluster[controller_id], others(controller_id)
        await create_topic(cluster, [preferred, second, controller_id])
        cluster[preferred].crash()
        await until(lambda: partition(controller).leader == second, "the next replica leads")
        await asyncio.sleep(2 * EVERY_S)
        assert partition(controller).leader == second, "who is dead is not preferred"
        await cluster[preferred].start()
        await until(lambda: len(partition(controller).isr) == 3, "all are in sync")
        before, epoch, back_at = elections(controller).leaders, partition(controller).leader_epoch, now()
        if not balances:
            await asyncio.sleep(3 * EVERY_S)
            assert (partition(controller).leader, elections(controller).leaders) == (second, before)
            return
        await until(lambda: all(partition(node).leader == preferred for node in cluster.values()), "it leads again")
        assert now() - back_at < EVERY_S + A_MOMENT_S
        await asyncio.sleep(3 * EVERY_S)
        assert (elections(controller).leaders, elections(controller).unclean) == (before + 1, 0)
        assert (partition(controller).leader_epoch, len(partition(controller).isr)) == (epoch + 1, 3)

    with Simulation(1) as simulation:
        simulation.run(story())


async def alter(controller: Node, name: str, value: str) -> None:
    """Changes a configuration of the topic; returns when it is committed."""
    resource = AlterConfigsResource(TOPIC_RESOURCE, TOPIC, [AlterableConfig(name, 0, value)])
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = IncrementalAlterConfigsRequest([resource], validate_only=False)
    controller.server.controller.driver.submit(request, 1, answered.set_result)
    assert (await answered).responses[0].error_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_periodic_unclean_election_elects_out_of_sync_replica(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation, unclean_leader_election_interval_ms=str(EVERY_S * 1000))
        controller_id = await controller_of(cluster)
        controller, (last, behind) = cluster[controller_id], others(controller_id)
        await create_topic(cluster, [last, behind])
        write(cluster[last], b"everybody has it")
        await until(lambda: hosted(cluster[behind]).log_end_offset == 1, "it has it")
        cluster[behind].crash()
        await until(lambda: partition(controller).isr == (last,), "one is left")
        write(cluster[last], b"of which the next leader knows nothing")
        simulation.network.isolate(cluster[behind].name, [cluster[last].name])
        await cluster[behind].start()
        cluster[last].crash()
        await until(lambda: partition(controller).leader == NO_LEADER, "nobody leads")
        await asyncio.sleep(3 * EVERY_S)
        assert partition(controller).leader == NO_LEADER and elections(controller).unclean == 0, "it is not allowed"

        await alter(controller, "unclean.leader.election.enable", "true")
        allowed_at = now()
        await until(lambda: partition(controller).leader == behind, "who lives leads")
        assert now() - allowed_at < EVERY_S + A_MOMENT_S
        assert partition(controller).isr == (behind,) and elections(controller).unclean == 1
        await until(lambda: hosted(cluster[behind]).is_leader, "and knows that")
        write(cluster[behind], b"in its place")
        simulation.network.mend()
        await cluster[last].start()
        await until(lambda: set(partition(controller).isr) == {last, behind}, "who comes back follows")
        assert [hosted(cluster[one]).log_end_offset for one in (last, behind)] == [2, 2]
        entries = [hosted(cluster[one]).log.epochs.entries() for one in (last, behind)]
        assert entries[0] == entries[1] and entries[0][-1] == (partition(controller).leader_epoch, 1)
        assert elections(controller).unclean == 1

    with Simulation(seed) as simulation:
        simulation.run(story())
