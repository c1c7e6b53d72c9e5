"""Work that moves between nodes, or that nodes share: three whole nodes in simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.replication.quorum.following import Following
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories
from odradek.testing.simulation import Node, Simulation

from tests.server.harness.data_path import batch_of
from tests.server.harness.simulated_cluster import (
    CLUSTER_ID,
    NODES,
    TOPIC,
    active,
    controller_of,
    create_topic,
    nodes,
    until,
)

#: Without a handover, an election starts after controller.quorum.fetch.timeout.ms, which is 2 s.
HANDED_OVER_WITHIN_S = 0.5
PARTITIONS = 16


def left_of(cluster: dict[int, Node], gone: int) -> dict[int, Node]:
    return {node_id: node for node_id, node in cluster.items() if node_id != gone}


@pytest.mark.parametrize("seed", range(4))
def test_a_controller_that_stops_hands_over_long_before_it_would_be_missed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The followers would notice the end of the process, too. This check is off here.
    monkeypatch.setattr(Following, "leader_is_gone", lambda *_: None)

    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        left = left_of(cluster, controller)
        stops = asyncio.create_task(cluster[controller].stop())
        await until(lambda: not cluster[controller].is_running or active(cluster) is not cluster[controller], "it ends")
        resigned_at = asyncio.get_running_loop().time()
        await until(lambda: active(left), "another is active")
        assert asyncio.get_running_loop().time() - resigned_at < HANDED_OVER_WITHIN_S
        await stops

    with Simulation(seed) as simulation:
        simulation.run(story())


async def alter(asked: Node, *resources: AlterConfigsResource) -> None:
    """Alters the configurations. Returns when the response has come."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = IncrementalAlterConfigsRequest(list(resources), validate_only=False)
    asked.server.controller.driver.submit(request, 1, answered.set_result)
    assert [one.error_code for one in (await answered).responses] == [0] * len(resources)


@pytest.mark.parametrize("seed", range(4))
def test_a_config_is_there_when_the_controller_dies_as_it_has_answered(seed: int) -> None:
    wanted = {(TOPIC_RESOURCE, TOPIC): ("retention.ms", "1234567"), (BROKER_RESOURCE, ""): ("log.cleaner.threads", "2")}

    async def story() -> None:
        cluster = nodes(simulation)
        controller = await controller_of(cluster)
        await create_topic(cluster, list(NODES))
        resources = [
            AlterConfigsResource(*who, [AlterableConfig(key, 0, value)]) for who, (key, value) in wanted.items()
        ]
        await alter(cluster[controller], *resources)
        cluster[controller].crash(power=True)
        left = left_of(cluster, controller)
        await until(lambda: active(left), "another is active")
        await cluster[controller].start()
        for who, (key, value) in wanted.items():
            assert all(node.server.node.metadata.image.configs[who][key] == value for node in cluster.values())
        hosted = [node.server.partitions.hosted.get((TOPIC, 0)) for node in cluster.values()]
        assert [one.log.config.retention_ms for one in hosted if one is not None] == [1234567] * len(NODES)

    with Simulation(seed) as simulation:
        simulation.run(story())


def test_cordoned_directories_reach_the_controller_before_the_next_heartbeat() -> None:
    """Until then it would place replicas in them."""

    async def story() -> None:
        cluster = nodes(simulation, broker_heartbeat_interval_ms="60000", broker_session_timeout_ms="200000")
        controller = await controller_of(cluster)
        broker = next(node_id for node_id in NODES if node_id != controller)

        def cordoned() -> tuple[bytes, ...]:
            registered = cluster[controller].server.node.metadata.image.broker(broker)
            assert registered is not None
            return registered.cordoned_directories

        assert cordoned() == ()
        for value, count in (("*", 1), ("", 0)):
            altered_at = asyncio.get_running_loop().time()
            changes = [AlterableConfig("cordoned.log.dirs", 0, value)]
            await alter(cluster[controller], AlterConfigsResource(BROKER_RESOURCE, str(broker), changes))
            await until(lambda count=count: len(cordoned()) == count, "the controller has it")
            assert asyncio.get_running_loop().time() - altered_at < 1

    with Simulation(1) as simulation:
        simulation.run(story())


def test_several_fetchers_share_the_partitions_of_a_leader() -> None:
    async def story() -> None:
        cluster = nodes(simulation, num_replica_fetchers="3")
        await controller_of(cluster)
        await create_topic(cluster, list(NODES), partitions=PARTITIONS)
        leader, *followers = (cluster[node_id] for node_id in NODES)
        await until(lambda: all(len(one.isr) == 3 for one in topic(leader).values()), "all are in sync")
        hosted = {index: leader.server.partitions.hosted.get((TOPIC, index)) for index in range(PARTITIONS)}
        for index, one in hosted.items():
            assert one is not None
            now_ms = leader.server.node.clock.now_ms()
            assert one.append(batch_of(b"%d" % index, timestamp=now_ms), now_ms).error == 0
        await until(lambda: all(one is not None and one.high_watermark == 1 for one in hosted.values()), "all have it")
        for follower in followers:
            fetchers = follower.server.replicas.replication()._fetchers.items()
            shares = dict.fromkeys(range(3), 0)
            for (_, number, _), fetcher in fetchers:
                shares[number] += len(fetcher)
            assert sum(shares.values()) == PARTITIONS and min(shares.values()) > 0, shares

    def topic(node: Node) -> Any:
        return node.server.node.metadata.image.topic(TOPIC).partitions

    with Simulation(1) as simulation:
        simulation.run(story())


def test_brokers_report_replica_directories_to_a_remote_controller() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        for node in cluster.values():
            node._properties["log.dirs"] = ",".join(str(node.directory / name) for name in ("first", "second"))
            format_directories(BrokerConfig(node._properties), CLUSTER_ID)
        controller = await controller_of(cluster)
        await create_topic(cluster, list(NODES), partitions=PARTITIONS)
        ids = {
            node_id: {directory.path: directory.directory_id for directory in node.server.node.directories}
            for node_id, node in cluster.items()
        }
        assert all(len(set(of_one.values())) == 2 for of_one in ids.values())

        def reported() -> dict[tuple[int, int], bytes]:
            """Returns the directories in the controller's image, by broker and partition."""
            found = cluster[controller].server.node.metadata.image.topic(TOPIC).partitions
            return {
                (broker, index): directory
                for index, one in found.items()
                for broker, directory in zip(one.replicas, one.directories, strict=True)
            }

        wanted = {
            (node_id, hosted.index): ids[node_id][hosted.directory.path]
            for node_id, node in cluster.items()
            for hosted in node.server.partitions.hosted
            if hosted.topic == TOPIC
        }
        assert len(wanted) == len(NODES) * PARTITIONS and len(set(wanted.values())) == 2 * len(NODES)
        await until(lambda: reported() == wanted, "the controller knows where all replicas are")

    with Simulation(2) as simulation:
        simulation.run(story())
