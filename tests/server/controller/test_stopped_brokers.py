"""Brokers that may have ended: they are probed once, Metadata waits for their fencing, and lists them for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from odradek.metadata.image import EMPTY_IMAGE, BrokerImage
from odradek.protocol.internal.cluster_metadata import (
    BrokerEndpoint,
    ControllerEndpoint,
    RegisterControllerRecord,
)
from odradek.protocol.schema import Message
from odradek.server.controller import stopped_brokers
from odradek.server.controller.stopped_brokers import HEARD_TURNS, HELD_MS, LISTED_MS, StoppedBrokers
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.server.harness.images import broker_record, image_with
from tests.server.harness.noted_peers import NotedPeers
from tests.server.harness.virtual_time import after_ms, simulated, turns


def broker(broker_id: int, *, fenced: bool = False, leaves: bool = False) -> BrokerImage:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host=f"b{broker_id}", port=9092)
    record = broker_record(broker_id, fenced=fenced, end_points=[endpoint], in_controlled_shutdown=leaves)
    image = image_with(record).broker(broker_id)
    assert image is not None
    return image


class EndingPeers(NotedPeers):
    """`ended`: how many more times a connection has ended that the loop has not read yet."""

    ended = 0

    def have_some_ended(self) -> bool:
        self.ended -= 1
        return self.ended >= 0


class Harness:
    """Stopped brokers of a node whose probes the test answers, and whose peers it plays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.probed: list[tuple[str, int]] = []
        self.response: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.peers = EndingPeers()
        self.metadata = MetadataCache()
        self.stopped = StoppedBrokers(self.metadata, Lazy(lambda: self.peers))
        self.stopped.start()
        monkeypatch.setattr(stopped_brokers, "is_gone", self._is_gone)

    async def _is_gone(self, addresses: list[tuple[str, int]], again_s: Any) -> bool:
        self.probed += addresses
        return await self.response

    def publish(self, *brokers: BrokerImage, controllers: Sequence[Message] = ()) -> None:
        image = image_with(*controllers)
        by_id = image.cluster.brokers
        for one in brokers:
            by_id = by_id.set(one.id, one)
        self.metadata.image = image._replace(cluster=image.cluster._replace(brokers=by_id))
        for function in self.metadata.on_published:
            function(self.metadata.image)

    def lost(self, host: str, port: int = 9092) -> set[int]:
        assert self.peers.on_any_lost is not None
        self.peers.on_any_lost(host, port)
        return set(self.stopped.leaving)


def with_harness(monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Harness], Any]) -> None:
    async def run() -> None:
        harness = Harness(monkeypatch)
        await scenario(harness)
        harness.stopped.stop()
        await turns()

    simulated(run)


def test_broker_is_probed_once_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: Harness) -> None:
        stopped = harness.stopped
        for one in (broker(0), broker(0), broker(2), broker(3, fenced=True)):
            stopped.look_for(one)
        assert set(stopped.leaving) == {0, 2}
        responses: list[int] = []
        for number in range(2):
            stopped.when_known(lambda number=number: responses.append(number))  # type: ignore[misc]
        await turns()
        assert harness.probed == [("b0", 9092), ("b2", 9092)] and responses == []
        harness.response.set_result(False)
        await turns()
        assert not stopped.leaving and responses == [0, 1]
        harness.response = asyncio.get_running_loop().create_future()
        stopped.look_for(broker(0))
        assert set(stopped.leaving) == {0}, "it may end again"

    with_harness(monkeypatch, scenario)


def test_metadata_waits_for_the_fencing_of_a_broker_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: Harness) -> None:
        harness.publish(broker(0), broker(1))
        responses: list[str] = []
        harness.lost("b0")
        harness.stopped.when_known(lambda: responses.append("answer"))
        harness.response.set_result(True)
        await after_ms(HELD_MS - 0.1)
        assert set(harness.stopped.leaving) == {0} and responses == []
        harness.publish(broker(0), broker(1, fenced=True))
        await turns()
        assert responses == [], "another broker is fenced"
        harness.publish(broker(0, fenced=True), broker(1, fenced=True))
        await turns()
        assert not harness.stopped.leaving and responses == ["answer"]

    with_harness(monkeypatch, scenario)


def test_metadata_waits_for_no_longer_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: Harness) -> None:
        harness.publish(broker(0))
        responses: list[str] = []
        harness.lost("b0")
        harness.stopped.when_known(lambda: responses.append("answer"))
        harness.response.set_result(True)
        await after_ms(HELD_MS - 0.1)
        assert responses == []
        await after_ms(2)
        assert responses == ["answer"] and not harness.stopped.leaving
        harness.stopped.when_known(lambda: responses.append("later"))
        assert harness.lost("b0") == {0}
        await after_ms(HELD_MS + 1)
        assert responses == ["answer", "later"], "each is answered once"

    with_harness(monkeypatch, scenario)


def test_lost_connection_is_that_of_the_broker_with_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: Harness) -> None:
        controllers = [
            RegisterControllerRecord(
                controller_id=node_id, end_points=[ControllerEndpoint(name="C", host=f"c{node_id}", port=9093)]
            )
            for node_id in (2, 9)
        ]
        harness.publish(broker(0), broker(1), broker(2), controllers=controllers)
        assert harness.lost("b1", 9093) == set(), "another port"
        assert harness.lost("c9", 9093) == set(), "no broker"
        assert harness.lost("b0") == {0}
        assert harness.lost("c2", 9093) == {0, 2}

    with_harness(monkeypatch, scenario)


@pytest.mark.parametrize(
    ("before", "after", "is_listed"),
    [
        ({}, {"fenced": True}, True),
        ({"leaves": True}, {"fenced": True, "leaves": True}, False),
        ({"fenced": True}, {"fenced": True}, False),
        ({}, {}, False),
        (None, {"fenced": True}, False),
        (None, {}, False),
    ],
)
def test_broker_that_is_fenced_without_a_controlled_shutdown_is_listed_for_a_while(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, bool] | None, after: dict[str, bool], is_listed: bool
) -> None:
    async def scenario(harness: Harness) -> None:
        harness.publish(*([] if before is None else [broker(0, **before)]))
        assert set(harness.stopped.still_listed()) == set()
        harness.publish(broker(0, **after))
        expected = {0} if is_listed else set()
        assert set(harness.stopped.still_listed()) == expected
        await after_ms(LISTED_MS - 1)
        harness.publish(broker(0, **after))
        assert set(harness.stopped.still_listed()) == expected, "counted from its fencing"
        await after_ms(2)
        assert set(harness.stopped.still_listed()) == set()

    with_harness(monkeypatch, scenario)


def test_broker_that_is_back_is_not_listed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: Harness) -> None:
        for fenced in (False, True, False):
            harness.publish(broker(0, fenced=fenced), broker(1, fenced=fenced))
            assert set(harness.stopped.still_listed()) == ({0, 1} if fenced else set())
        harness.publish(broker(0, fenced=True), broker(1))
        cluster = harness.metadata.image.cluster
        await after_ms(LISTED_MS - 1)
        for function in harness.metadata.on_published:
            function(EMPTY_IMAGE._replace(cluster=cluster))
        assert set(harness.stopped.still_listed()) == {0}

    with_harness(monkeypatch, scenario)


@pytest.mark.parametrize("ended", [0, 1, HEARD_TURNS, 99])
def test_response_comes_when_the_ends_of_connections_are_handled(monkeypatch: pytest.MonkeyPatch, ended: int) -> None:
    async def scenario(harness: Harness) -> None:
        harness.peers.ended = ended
        answered: list[bool] = []
        harness.stopped.when_heard(lambda: answered.append(True))
        waited = 0
        while not answered:
            await asyncio.sleep(0)
            waited += 1
        assert waited == min(ended, HEARD_TURNS)

    with_harness(monkeypatch, scenario)
