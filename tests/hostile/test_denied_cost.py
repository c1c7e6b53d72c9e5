"""Requests of every API that name very many things that their client may not: refusals are sliced as work is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from odradek.protocol.session_epochs import INITIAL_EPOCH
from odradek.server.runtime.turn_budget import TURN_BUDGET_S

from tests.hostile.cost_check import GROUP, TOPIC, one_of_each_api
from tests.hostile.cost_probe import MeasuredBroker, frame_of
from tests.hostile.cost_requests import Shape, World, request_of

pytestmark = pytest.mark.usefixtures("sockets")

NAMES, FETCHED, TRIES = 8_000, 100_000, 4
NO_SESSION = 1
SHAPES = [one for one in one_of_each_api() if not one.repeats]


@pytest.fixture(scope="module")
def denying() -> Iterator[MeasuredBroker]:
    """A broker that denies everything to clients without a login."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "auto.create.topics.enable": False,
    }
    with MeasuredBroker(**config) as broker:
        broker.settle()
        yield broker


def leaves_the_loop(broker: MeasuredBroker, frame: bytes) -> bool:
    """Whether one of several requests blocks the loop within the budget. The first request of an API imports its code."""
    broker.exchange(frame)
    return any(broker.longest_turn_s(frame) < TURN_BUDGET_S for _ in range(TRIES))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_refusals_of_many_names_leave_the_loop_to_others(denying: MeasuredBroker, shape: Shape) -> None:
    world = World(TOPIC, bytes(15) + b"\1", GROUP, denying.broker.server.node_id)
    frame = frame_of(request_of(shape, world, NAMES), shape.version)
    assert leaves_the_loop(denying, frame)


def fetch_of_many(version: int, session_epoch: int) -> bytes:
    topics = [
        FetchTopic(
            topic=f"theirs-{number}",
            topic_id=number.to_bytes(16, "big"),
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
        )
        for number in range(1, FETCHED + 1)
    ]
    forgotten = [ForgottenTopic(topic.topic, topic.topic_id, partitions=[1]) for topic in topics if session_epoch > 0]
    request = FetchRequest(
        replica_id=-1, min_bytes=0, max_bytes=1 << 20, session_id=NO_SESSION, session_epoch=session_epoch, topics=topics,
        forgotten_topics_data=forgotten,
    )  # fmt: skip
    assert version in APIS[1].versions
    return frame_of(request, version)


@pytest.mark.parametrize("version", [4, 12, 17])
def test_fetch_of_very_many_denied_topics_leaves_the_loop_to_others(denying: MeasuredBroker, version: int) -> None:
    """By name, with a session to be opened; and by ids that no topic has."""
    assert leaves_the_loop(denying, fetch_of_many(version, INITIAL_EPOCH))


@pytest.mark.parametrize("version", [12, 17])
def test_fetch_of_very_many_topics_in_an_unknown_session_leaves_the_loop_to_others(
    denying: MeasuredBroker, version: int
) -> None:
    """The response is short; the request is freed in slices all the same."""
    assert leaves_the_loop(denying, fetch_of_many(version, INITIAL_EPOCH + 1))
