"""Metadata of many partitions, built in slices: other requests are served in between, and the response is of one image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import odradek
import pytest
from immutables import Map
from odradek import Broker
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.server.endpoints import metadata
from odradek.server.network import large_requests
from odradek.server.network.call import Call
from odradek.server.runtime import sliced_work, turn_budget, turns

from compat_tests.wire import WireClient
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.replicas import eventually

pytestmark = pytest.mark.usefixtures("sockets")

TOPICS = [CreatableTopic("many", 95, 1), CreatableTopic("few", 3, 1)]


def slice_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    set_slices(monkeypatch, 0.0)


def set_slices(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for module in (large_requests, sliced_work, turn_budget, turns):
        monkeypatch.setattr(module, "SLICE_S", seconds)


class Asking(NotedCalls):
    """A client of the server whose requests wait for their responses."""

    def __init__(self, server: Any) -> None:
        connection = NotedConnection()
        connection.listener_name = "PLAINTEXT"
        connection.dispatcher = server.network.dispatchers["broker"]
        connection.listener.shared = server.network.listeners
        super().__init__(connection)

    def metadata(self, request: MetadataRequest) -> Call[Any]:
        call = self.call(request, 13)
        call.is_parked = True
        return call


async def test_a_response_in_slices_is_of_one_image_and_holds_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(data_dir=tmp_path) as broker:
        server, created = broker.server, []
        server.controller.driver.submit(CreateTopicsRequest(TOPICS, 60_000), 7, created.append)
        await eventually(lambda: created)
        set_slices(monkeypatch, 3600.0)
        asking, run_to_completion = Asking(server), Asking(server)
        in_slices = asking.responses
        assert metadata.handle(server.services, run_to_completion.metadata(MetadataRequest(None))) is None
        assert len(run_to_completion.responses) == 1, "what is little is answered at once"
        assert not run_to_completion.held
        slice_each_step(monkeypatch)
        metadata.handle(server.services, asking.metadata(MetadataRequest(None)))
        assert not in_slices and asking.held == 1
        with monkeypatch.context() as patch:
            patch.setattr(server.node.metadata, "image", EMPTY_IMAGE)
            await eventually(lambda: in_slices)
        assert in_slices == run_to_completion.responses
        assert {topic.name: len(topic.partitions) for topic in in_slices[0].topics} == {"many": 95, "few": 3}


async def test_failure_in_later_slice_returns_unknown_server_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slice_each_step(monkeypatch)
    async with Broker(data_dir=tmp_path) as broker:
        server, created = broker.server, []
        server.controller.driver.submit(CreateTopicsRequest(TOPICS, 60_000), 7, created.append)
        await eventually(lambda: created)
        original, asking = metadata._partition, Asking(server)

        def partition(view: Any, version: int, index: int, *rest: Any) -> Any:
            if index == 50:
                raise LookupError("injected")
            return original(view, version, index, *rest)

        monkeypatch.setattr(metadata, "_partition", partition)
        responses = asking.responses
        metadata.handle(server.services, asking.metadata(MetadataRequest(None)))
        await eventually(lambda: responses)
        assert (responses[0].error_code, responses[0].topics) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def test_responses_of_a_connection_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        assert [topic.error_code for topic in client.call(CreateTopicsRequest(TOPICS), 7).topics] == [0, 0]
        slice_each_step(monkeypatch)
        few = MetadataRequest([MetadataRequestTopic(bytes(16), "few")])
        every = MetadataRequest(None)
        sent = [(request, client.send(request, 12)) for request in (every, few, every, few)]
        counts = [len(client.receive(request, 12, number).topics) for request, number in sent]
        assert counts == [2, 1, 2, 1]


def all_topics(client: WireClient, version: int) -> list[Any]:
    topics = client.call(MetadataRequest([] if version == 0 else None), version).topics
    return sorted(topics, key=lambda topic: topic.name)


def create(client: WireClient, name: str, partitions: int) -> None:
    made = client.call(CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 60_000), 7)
    assert made.topics[0].error_code == 0


@pytest.fixture
def described_partitions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which the index of each partition is added that a response describes anew."""
    found: list[int] = []
    describe = metadata._partition

    def counted(view: Any, version: int, index: int, partition: Any) -> Any:
        found.append(index)
        return describe(view, version, index, partition)

    monkeypatch.setattr(metadata, "_partition", counted)
    return found


def test_kept_topics_are_described_as_the_first_time() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        create(client, "many", 300)
        create(client, "other", 250)
        few = [MetadataRequestTopic(bytes(16), name) for name in ("many", "other")]
        for version in range(14):
            plain = client.call(MetadataRequest(few), version).topics
            first, second = (all_topics(client, version) for _ in range(2))
            assert ("PLAINTEXT", version) in broker.server.node.metadata.described
            assert first == second == sorted(plain, key=lambda topic: topic.name)


def test_every_topic_is_described_once_until_it_changes(described_partitions: list[int]) -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        create(client, "many", 600)
        all_topics(client, 12)
        assert len(described_partitions) == 600
        create(client, "new", 5)
        assert len(all_topics(client, 12)) == 2
        assert len(described_partitions) == 605
        client.call(DeleteTopicsRequest([DeleteTopicState("new")], timeout_ms=60_000), 6)
        assert len(all_topics(client, 12)) == 1
        assert len(described_partitions) == 605
        all_topics(client, 11)
        assert len(described_partitions) == 1205


def test_topics_are_described_anew_when_a_broker_changes(described_partitions: list[int]) -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        create(client, "many", 600)
        assert {one.error_code for topic in all_topics(client, 12) for one in topic.partitions} == {0}
        held = broker.server.node.metadata
        (node,) = held.image.cluster.brokers.values()
        gone = held.image.cluster._replace(brokers=Map({1: node._replace(listeners={})}))
        held.image = held.image._replace(cluster=gone)
        errors = {one.error_code for topic in all_topics(client, 12) for one in topic.partitions}
        assert errors == {ErrorCode.LISTENER_NOT_FOUND}
        assert len(described_partitions) == 1200


def test_kept_topics_are_bounded(described_partitions: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "KEPT_BYTES", 30_000)
    monkeypatch.setattr(metadata, "MOST_KEPT_VERSIONS", 2)
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        for number in range(4):
            create(client, f"topic-{number}", 400)
        for _ in range(2):
            assert [len(topic.partitions) for topic in all_topics(client, 12)] == [400] * 4
        assert 1600 < len(described_partitions) < 3200
        for version in (9, 10, 11):
            all_topics(client, version)
        assert [version for _, version in broker.server.node.metadata.described] == [10, 11]


def test_topics_of_few_partitions_are_not_kept(described_partitions: list[int]) -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        create(client, "few", 400)
        for _ in range(2):
            assert len(all_topics(client, 12)) == 1
        assert len(described_partitions) == 800
        assert not broker.server.node.metadata.described
