"""The coordinators of a node: which are made, follow images, and end; and the topics that they have created."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE
from odradek.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.subsystems import Part, Subsystems


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    made = Subsystems(tmp_path / "a", tmp_path / "b")
    yield made
    made.close()


@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("has_topic", [True, False])
@pytest.mark.parametrize("groups_fail", [True, False])
async def test_coordinator_of_transactions_is_made_with_its_topic_and_follows_images_whatever_becomes_of_groups(
    is_made: bool, has_topic: bool, groups_fail: bool, node: Subsystems
) -> None:
    coordinators = node.coordinators
    coordinators.groups = Part("groups", node.calls, *(("apply",) if groups_fail else ()))  # type: ignore[assignment]
    transactions = Part("transactions", node.calls)
    coordinators.transactions = Lazy(lambda: transactions)  # type: ignore[assignment]
    if is_made:
        coordinators.transactions()
    delta = MetadataDelta(EMPTY_IMAGE)
    if has_topic:
        delta.replay(TopicRecord(TRANSACTION_STATE_TOPIC, bytes(15) + b"\x01"))
    image = delta.apply(1, 1, 1)
    if groups_fail:
        with pytest.raises(ZeroDivisionError):
            coordinators.publish(delta, image)
    else:
        assert list(coordinators.publish(delta, image)) == []
    expected = [("groups", "apply", delta, image)]
    assert node.called() == expected + [("transactions", "apply", delta, image)] * (is_made or has_topic)
    coordinators._take_up(image)
    assert node.called() == [("groups", "take_up", image)] + [("transactions", "take_up", image)] * (
        is_made or has_topic
    )


@pytest.mark.parametrize("is_made", [True, False])
async def test_coordinators_stop_and_hand_over(is_made: bool, node: Subsystems) -> None:
    coordinators = node.coordinators
    handed_over = asyncio.Event()

    class Groups(Part):
        async def hand_over(self) -> None:
            handed_over.set()

    coordinators.groups = Groups("groups", node.calls)  # type: ignore[assignment]
    if is_made:
        coordinators.transactions.made = Part("transactions", node.calls)  # type: ignore[assignment]
    await coordinators.hand_over()
    assert handed_over.is_set()
    await coordinators.stop()
    assert node.called() == [("transactions", "stop")] * is_made + [("groups", "stop")]
    assert (coordinators.transactions.made is not None) == is_made


@pytest.mark.parametrize("client", [None, ("User:alice", "/10.0.0.9")])
async def test_topics_are_created_for_the_node_or_on_behalf_of_a_client(
    client: tuple[str, str] | None, node: Subsystems
) -> None:
    request, responses = CreateTopicsRequest([], 1000), list[Any]()
    node.coordinators._create_topics_for(request, responses.append, client)
    ((asked, _, reply, fields),) = node.driver.asked
    assert asked is request
    assert fields == ({} if client is None else {"principal": "User:alice", "client_host": "/10.0.0.9"})
    reply(5)
    assert responses == [5]


async def test_internal_topics_are_created_by_their_names(node: Subsystems) -> None:
    coordinators = node.coordinators
    coordinators.groups = Part("groups", node.calls)  # type: ignore[assignment]
    coordinators.transactions.made = Part("transactions", node.calls)  # type: ignore[assignment]
    for topic in ("__consumer_offsets", TRANSACTION_STATE_TOPIC):
        coordinators.internal_topics[topic]()
    assert [call[:2] for call in node.called()] == [("groups", "ensure_topic"), ("transactions", "ensure_topic")]
