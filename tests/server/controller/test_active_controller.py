"""The active controller of three: its pending requests when it loses leadership, and its records when idle."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from odradek.metadata.metadata_version import CONTROLLER_UNREGISTRATION
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.unregister_controller import UnregisterControllerRequest
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.server.access.subsystem import AccessSubsystem
from odradek.server.controller.active_controller import ActiveController
from odradek.testing.simulation import Node, Simulation

from tests.server.harness.nodes import node_of
from tests.server.harness.quorum_membership import membership_of
from tests.server.harness.scripted_engine import ScriptedEngine
from tests.server.harness.simulated_cluster import active, nodes, start, until


async def begun(cluster: dict[int, Node]) -> Node:
    await start(cluster)
    await until(lambda: active(cluster), "one of them is active")
    found = active(cluster)
    assert found is not None
    return found


def submit(node: Node, *names: str) -> list[Any]:
    """Returns the list that gets the response to CreateTopics when it comes."""
    responses: list[Any] = []
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 10_000)
    node.server.controller.driver.submit(request, 7, responses.append)
    return responses


@pytest.mark.parametrize("seed", range(3))
def test_request_taken_as_leadership_is_lost_goes_to_next_controller(seed: int) -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        node = await begun(cluster)
        await until(lambda: len(node.server.node.metadata.image.cluster.brokers) == 3, "all are registered")
        responses = submit(node, "before")
        assert not responses, "it is not committed yet"
        raft = node.server.controller.driver.raft
        assert raft is not None
        raft.resign()
        assert not node.server.controller.driver.is_active
        await until(lambda: responses, "whoever leads next answers")
        (topic,) = responses[0].topics
        assert topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), topic
        await until(
            lambda: all(one.server.node.metadata.image.topic("before") is not None for one in cluster.values()),
            "all know it",
        )

    with Simulation(seed) as simulation:
        simulation.run(story())


def test_request_to_resigned_controller_is_not_forwarded() -> None:
    """The client of a controller listener, or the sender of an Envelope, finds the next controller itself."""

    async def story() -> None:
        cluster = nodes(simulation)
        node = await begun(cluster)
        responses: list[Any] = []
        request = CreateTopicsRequest([CreatableTopic("a", 1, 1)], 10_000)
        node.server.controller.driver.decide(request, 7, responses.append)
        raft = node.server.controller.driver.raft
        assert raft is not None
        raft.resign()
        assert [response.topics[0].error_code for response in responses] == [ErrorCode.NOT_CONTROLLER]

    with Simulation(1) as simulation:
        simulation.run(story())


@pytest.mark.parametrize(("interval_ms", "least", "most"), [(500, 18, 22), (0, 0, 0)])
def test_an_idle_controller_writes_records_by_which_its_followers_are_seen(
    interval_ms: int, least: int, most: int
) -> None:
    async def story() -> None:
        cluster = nodes(simulation, metadata_max_idle_interval_ms=str(interval_ms))
        node = await begun(cluster)
        await asyncio.sleep(5)
        before = node.server.controller.driver.quorum_log.end_offset
        await asyncio.sleep(10)
        assert active(cluster) is node
        written = node.server.controller.driver.quorum_log.end_offset - before
        assert least <= written <= most
        end = node.server.controller.driver.quorum_log.end_offset
        await until(
            lambda: all(one.server.node.metadata.image.offset >= end - 1 for one in cluster.values()),
            "everybody follows",
        )

    with Simulation(1) as simulation:
        simulation.run(story())


def test_a_lone_broker_writes_none() -> None:
    async def story() -> None:
        node = simulation.node("alone")
        await node.start()
        before = node.server.controller.driver.quorum_log.end_offset
        await asyncio.sleep(60)
        assert node.server.controller.driver.quorum_log.end_offset == before
        await node.stop()

    with Simulation(1) as simulation:
        simulation.run(story())


def test_a_controller_that_lives_and_is_unregistered_registers_again() -> None:
    async def story() -> None:
        cluster = nodes(simulation)
        node = await begun(cluster)
        await until(lambda: len(node.server.node.metadata.image.cluster.controllers) == 3, "all are registered")
        other = next(one for one in cluster.values() if one is not node)
        responses: list[Any] = []
        level = FeatureUpdateKey("metadata.version", CONTROLLER_UNREGISTRATION, upgrade_type=1)
        node.server.controller.driver.submit(UpdateFeaturesRequest(10_000, [level]), 1, responses.append)
        await until(lambda: responses, "the level has a word for it")
        assert responses.pop().error_code == ErrorCode.NONE
        request = UnregisterControllerRequest(controller_id=other.server.node_id)
        other.server.controller.driver.submit(request, 0, responses.append)
        await until(lambda: responses, "it is answered")
        assert responses[0].error_code == ErrorCode.NONE, responses
        await until(lambda: len(node.server.node.metadata.image.cluster.controllers) == 3, "it is back")

    with Simulation(1) as simulation:
        simulation.run(story())


@pytest.mark.parametrize(("is_active", "leads"), [(False, True), (True, False), (False, False)])
def test_controller_that_is_not_yet_active_or_leads_no_longer_decides_nothing(is_active: bool, leads: bool) -> None:
    """A controller has no state before it has committed its first record; after a later leader it may append nothing."""
    member = membership_of(engine=ScriptedEngine(leads=leads))
    node, none = node_of(), cast(Any, None)
    access = AccessSubsystem(node)
    controller = ActiveController(node, access, member, none, none, activated=none, failed=none)
    controller.is_active = is_active
    responses: list[Any] = []
    controller.decide(CreateTopicsRequest([CreatableTopic("a", 1, 1)], 10_000), 7, responses.append)
    assert [response.topics[0].error_code for response in responses] == [ErrorCode.NOT_CONTROLLER]
