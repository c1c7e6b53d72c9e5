"""The driver of a single voter in simulated time, on its own directory: its start, its state, its reports and its stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.image import MetadataImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.server.access.subsystem import AccessSubsystem
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.driver import OtherNodes, QuorumDriver
from odradek.server.controller.formatting import format_directories
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog
from odradek.server.partitions.cordoning import CORDONED_KEY
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.sliced_work import run_to_completion
from odradek.storage.directory import LogDirectory
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.nodes import NotedHalt, node_of
from tests.server.harness.noted_peers import NotedPeers
from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

NODE_ID, OTHER = 0, 2
CLUSTER_ID = "cluster"
LISTENERS = [Endpoint("PLAINTEXT", "here", 9092)]


class Inline:
    """A pool that works at once."""

    async def run(self, work: Any) -> Any:
        return work()


class Node:
    """A single voter on a formatted directory. It notes the images that it publishes, and the failures that halt it."""

    def __init__(self, path: Path, **properties: str) -> None:
        path.mkdir(exist_ok=True)
        self.config = BrokerConfig(
            {"node.id": str(NODE_ID), "log.dirs": str(path)}
            | {key.replace("_", "."): value for key, value in properties.items()}
        )
        format_directories(self.config, CLUSTER_ID, ignore_formatted=True)
        self.directory = LogDirectory.open(self.config.metadata_log_dir)
        registration = registration_of(
            self.config, advertised=LISTENERS, directories=[self.directory], cluster_id=CLUSTER_ID
        )
        self.images: list[MetadataImage] = []
        self.halt = NotedHalt()
        self.forwarded: list[Any] = []
        node = node_of(
            self.config,
            clock=loop_clock(),
            cluster_id=CLUSTER_ID,
            disk=Inline(),
            metadata_log=Inline(),
            halt=self.halt,
            directories=[self.directory],
        )
        others = OtherNodes(Lazy(NotedPeers), lambda *asked, **client: self.forwarded.append(asked), lambda: None)
        self.driver = QuorumDriver(node, registration, others, AccessSubsystem(node), self, lambda request: None)

    # ---- ImagePublisher

    def publish(self, delta: Any, image: MetadataImage) -> None:
        self.images.append(image)

    def steps(self, delta: Any, image: MetadataImage) -> Any:
        self.publish(delta, image)
        return iter(())

    # ---- what happens to the node

    async def start(self) -> None:
        await self.driver.start([self.directory])

    async def stop(self) -> None:
        await self.driver.stop()
        self.directory.close()

    def create(self, name: str) -> list[CreateTopicsResponse]:
        responses: list[Any] = []
        self.driver.submit(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1000), 7, responses.append)
        return responses

    def write(self, *records: Any) -> None:
        """Appends records as a controller that decided them did."""
        self.driver._active.append(records, False)

    def register_other(self) -> None:
        end_points = [BrokerEndpoint(name="PLAINTEXT", host="there", port=9092)]
        self.write(
            RegisterBrokerRecord(broker_id=OTHER, broker_epoch=9, end_points=end_points, fenced=False),
            TopicRecord("led", bytes(15) + b"\x05"),
            PartitionRecord(
                0, bytes(15) + b"\x05", [NODE_ID, OTHER], [NODE_ID, OTHER], [], [], NODE_ID, 0, 0,
                directories=[bytes(15) + b"\x01"] * 2,
            ),
        )  # fmt: skip


def loaded(path: Path) -> MetadataImage:
    """Returns the image that the log on the disk leads to."""
    quorum_log = QuorumLog(path / DIRECTORY_NAME, BrokerConfig({}), 1)
    found = run_to_completion(quorum_log.load(1))
    image = found.delta.apply(quorum_log.end_offset - 1, found.last_epoch, found.last_append_timestamp_ms)
    quorum_log.close(1)
    return image


def test_single_voter_leads_when_it_has_started(tmp_path: Path) -> None:
    async def story() -> None:
        node = Node(tmp_path)
        driver = node.driver
        assert (driver.is_active, driver.epoch, driver.broker_epoch) == (False, 0, -1)
        assert (driver.leader_id, driver.leader_endpoint, driver.voter_endpoints()) == (-1, None, {})
        await node.start()
        assert (driver.is_active, driver.is_alone, driver.epoch, driver.leader_id) == (True, True, 1, NODE_ID)
        assert (driver.leader_endpoint, driver.voter_endpoints()) == (None, {}), "there is no other node to name it for"
        (image,) = node.images
        broker = image.broker(NODE_ID)
        assert broker is not None and (broker.fenced, broker.epoch) == (False, driver.broker_epoch)
        assert driver.high_watermark == driver.quorum_log.end_offset == image.offset + 1
        await node.stop()

    simulated(story)


def test_decision_is_published_before_its_reply(tmp_path: Path) -> None:
    async def story() -> None:
        node = Node(tmp_path)
        await node.start()
        responses = node.create("orders")
        assert responses == [] and len(node.images) == 1, "the flush comes first"
        await node.driver.until_idle()
        await turns()
        (response,) = responses
        assert [(one.name, one.error_code) for one in response.topics] == [("orders", 0)]
        assert node.images[-1].topic("orders") is not None and node.forwarded == []
        await node.stop()
        assert loaded(tmp_path).topic("orders") is not None

    simulated(story)


@pytest.mark.parametrize("others", [True, False])
def test_single_voter_gives_its_leaderships_away_only_if_another_broker_may_take_them(
    others: bool, tmp_path: Path
) -> None:
    """A broker that has no other is fenced and keeps its leaderships: it leads at once when it starts again."""

    async def story() -> None:
        node = Node(tmp_path)
        await node.start()
        if others:
            node.register_other()
            await node.driver.until_idle()
        published = len(node.images)
        await node.stop()
        broker = loaded(tmp_path).broker(NODE_ID)
        assert broker is not None and broker.fenced and broker.in_controlled_shutdown
        if others:
            led = loaded(tmp_path).partition("led", 0)
            assert led is not None and (led.leader, led.isr) == (OTHER, (OTHER,))
        assert len(node.images) == published, "a node that stops publishes nothing"

    simulated(story)


def test_stop_before_the_start_closes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        node = Node(tmp_path)
        await node.driver.until_idle()
        await node.stop()
        assert node.images == [] and node.halt.failures == []

    simulated(story)


@pytest.mark.parametrize(
    ("key", "value", "is_reported"), [(CORDONED_KEY, "*", True), ("log.retention.ms", "1000", False)]
)
def test_change_of_cordoned_directories_is_reported_in_the_next_turn(
    key: str, value: str, is_reported: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        node = Node(tmp_path)
        await node.start()
        end_offset = node.driver.quorum_log.end_offset
        node.config.take_dynamic({}, {key: value})
        assert node.driver.quorum_log.end_offset == end_offset, "the change is still being published"
        await turns()
        await node.driver.until_idle()
        await turns()
        broker = node.images[-1].broker(NODE_ID)
        assert broker is not None
        assert broker.cordoned_directories == ((node.directory.directory_id,) if is_reported else ())
        assert (node.driver.quorum_log.end_offset > end_offset) == is_reported
        await node.stop()

    simulated(story)


def test_disk_that_fails_halts_the_node_and_waiting_requests_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        node = Node(tmp_path)
        await node.start()
        failure = LogDirectoryFailure(str(tmp_path), "flushing", OSError(5, "broken"))

        def fail() -> Any:
            raise failure

        monkeypatch.setattr(node.driver.quorum_log, "prepare_flush", fail)
        responses = node.create("orders")
        await after_ms(1)
        assert node.halt.failures == [failure] and not node.driver.is_active
        (response,) = responses
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert node.create("more")[0].topics[0].error_code == ErrorCode.NOT_CONTROLLER
        monkeypatch.undo()
        await node.stop()
        broker = loaded(tmp_path).broker(NODE_ID)
        assert broker is not None and not broker.fenced, "it wrote nothing more"

    simulated(story)
