"""The image as clients see it: brokers, leaders and offline replicas; and the log lines about its changes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from immutables import Map
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, LOST_DIRECTORY, BrokerImage, Endpoint, MetadataImage, PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from odradek.protocol.schema import Message
from odradek.server import change_log
from odradek.server.change_log import log_changes
from odradek.server.config.endpoint import Endpoint as ClientEndpoint
from odradek.server.controller.cluster_view import ClusterView
from odradek.server.controller.leaders import Leader, Leaders, ReachedBroker

from tests.server.harness.hosted import TOPIC, TOPIC_ID, Hosted
from tests.server.harness.images import cache_of

IN, OUT = "IN", "OUT"
ONLINE, OTHER = bytes([1]) * 16, bytes([2]) * 16


def broker(broker_id: int, *listeners: str, fenced: bool = False, rack: str | None = None) -> BrokerImage:
    found = {name: Endpoint(name, f"{name}{broker_id}", 9000 + broker_id, 0) for name in listeners}
    return BrokerImage(broker_id, 5, bytes(16), Map(found), Map(), rack, fenced, directories=(ONLINE,))


def image_of(*brokers: BrokerImage, leader: int = 0, epoch: int = 4) -> MetadataImage:
    """Returns an image with the brokers, and a topic with one partition."""
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TopicRecord(TOPIC, TOPIC_ID))
    delta.replay(
        PartitionRecord(
            partition_id=0, topic_id=TOPIC_ID, replicas=[0, 2], isr=[0, 2], leader=leader, leader_epoch=epoch,
            partition_epoch=0, directories=[bytes(16)] * 2,
        )
    )  # fmt: skip
    image = delta.apply(1, 1, 0)
    cluster = image.cluster._replace(brokers=Map({one.id: one for one in brokers}))
    return image._replace(cluster=cluster)


BROKERS = (broker(3, IN, OUT), broker(0, IN, rack="a"), broker(2, IN, OUT, fenced=True, rack="b"))


@pytest.mark.parametrize(
    ("listener", "alive", "listed", "controller"),
    [(IN, [0, 3], [0, 2, 3], 0), (OUT, [3], [2, 3], 3), ("NONE", [], [], -1)],
)
def test_listener_shows_the_brokers_that_have_it(
    listener: str, alive: list[int], listed: list[int], controller: int
) -> None:
    view = ClusterView(image_of(*BROKERS), listener)
    assert [one.id for one, _ in view.alive_brokers()] == alive
    assert [(one.id, endpoint.host) for one, endpoint in view.brokers()] == [
        (id_, f"{listener}{id_}") for id_ in listed
    ]
    assert view.controller_id() == controller
    assert [id_ for id_ in range(5) if view.is_registered(id_)] == [0, 2, 3]
    assert [id_ for id_ in range(5) if view.is_reachable(id_)] == listed
    assert [id_ for id_ in range(5) if view.is_alive(id_)] == alive


@pytest.mark.parametrize(
    ("listener", "directories", "offline"),
    [
        (IN, (ONLINE, ONLINE, ONLINE), [2]),
        (IN, (OTHER, ONLINE, ONLINE), [0, 2]),
        (IN, (bytes(16), ONLINE, LOST_DIRECTORY), [2, 3]),
        (OUT, (ONLINE, ONLINE, ONLINE), [0, 2]),
    ],
)
def test_replica_is_offline_with_its_broker_or_its_directory(
    listener: str, directories: tuple[bytes, ...], offline: list[int]
) -> None:
    view = ClusterView(image_of(*BROKERS), listener)
    for _ in range(2):  # the second time it is remembered
        assert view.offline_replicas(PartitionImage((0, 2, 3), (0,), 0, 0, 0, directories)) == offline
    assert view.offline_replicas(PartitionImage((9,), (), -1, 0, 0, (ONLINE,))) == [9]


class OpenPartitions:
    """Partition 0 of the topic, if it is open. `wanted`: those that requests have named, and that may not be open yet."""

    def __init__(self, hosted: Hosted | None, pending: set[tuple[str, int]]) -> None:
        self._hosted = hosted
        self.pending = pending
        self.wanted: list[tuple[str, int]] = []

    def get(self, key: tuple[str, int]) -> Hosted | None:
        return self._hosted if key == (TOPIC, 0) else None

    def want(self, key: tuple[str, int]) -> None:
        self.wanted.append(key)


class Here:
    """The leaders as broker 0 finds them."""

    def __init__(
        self, image: MetadataImage, hosted: Hosted | None = None, pending: set[tuple[str, int]] | None = None
    ) -> None:
        partitions = OpenPartitions(hosted, pending or set())
        self.wanted = partitions.wanted
        here: Any = partitions
        self.metadata = cache_of(image)
        self.leaders = Leaders(self.metadata, here, inter_broker_listener=IN, node_id=0)


@pytest.mark.parametrize("topic", [TOPIC, TOPIC_ID])
def test_leader_is_that_of_the_replica_here_or_of_the_image(topic: Any, tmp_path: Path) -> None:
    image = image_of(*BROKERS, leader=2)
    leaders = Here(image).leaders
    assert leaders.current_leader(OUT, topic, 0) == Leader(2, 4, ReachedBroker(2, "OUT2", 9002, "b"))
    assert leaders.current_leader("NONE", topic, 0) == Leader(2, 4, None)
    assert leaders.current_leader(OUT, topic, 1) == Leader(-1, -1, None)
    assert leaders.current_leader(OUT, "x" if topic is TOPIC else bytes(16), 0) == Leader(-1, -1, None)
    hosted = Hosted(tmp_path)
    hosted.lead(epoch=7)
    assert Here(image, hosted).leaders.current_leader(IN, topic, 0) == Leader(0, 7, ReachedBroker(0, "IN0", 9000, "a"))


def test_endpoints_of_other_brokers_are_those_between_brokers() -> None:
    leaders = Here(image_of(*BROKERS, leader=2)).leaders
    assert leaders.broker_endpoint(3) == ClientEndpoint(IN, "IN3", 9003)
    assert leaders.broker_endpoint(9) is None
    assert Here(image_of(broker(3, OUT))).leaders.broker_endpoint(3) is None
    assert leaders.other_leader(TOPIC, 0) == ClientEndpoint(IN, "IN2", 9002)
    assert leaders.other_leader(TOPIC, 1) is None and leaders.other_leader("x", 0) is None
    for leader in (0, -1):
        assert Here(image_of(*BROKERS, leader=leader)).leaders.other_leader(TOPIC, 0) is None


@pytest.mark.parametrize(
    ("topic", "index", "pending", "error"),
    [
        (TOPIC, 0, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (TOPIC_ID, 0, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (TOPIC, 0, True, ErrorCode.KAFKA_STORAGE_ERROR),
        (TOPIC_ID, 0, True, ErrorCode.KAFKA_STORAGE_ERROR),
        (TOPIC, 1, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x", 0, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (bytes(16), 0, False, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_partition_that_is_not_here_has_its_reason(topic: Any, index: int, pending: bool, error: ErrorCode) -> None:
    here = Here(image_of(*BROKERS), pending={(TOPIC, 0)} if pending else None)
    assert here.leaders.absent_error(topic, index) == error
    assert here.wanted == ([(TOPIC, 0)] if error == ErrorCode.NOT_LEADER_OR_FOLLOWER else [])


@pytest.mark.parametrize(
    ("topic", "error"), [(TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_topic_is_unknown_while_its_deletion_is_published(topic: Any, error: ErrorCode) -> None:
    here = Here(image_of(*BROKERS))
    here.metadata.being_published = EMPTY_IMAGE
    assert here.leaders.absent_error(topic, 0) == error
    assert here.wanted == []


# ---- log lines


class Published:
    """Images that are published one after the other, and the lines about each."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.image = EMPTY_IMAGE
        self._caplog = caplog
        caplog.set_level(logging.INFO, "odradek.metadata")

    def publish(self, *records: Message) -> list[str]:
        self._caplog.clear()
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        before, self.image = self.image, delta.apply(self.image.offset + len(records), 1, 0)
        log_changes(0, before, delta, self.image)
        return [one.getMessage() for one in self._caplog.records if one.name == "odradek.metadata"]


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def partition(number: int, index: int, leader: int, *replicas: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=topic_id(number), replicas=list(replicas), isr=list(replicas), leader=leader,
        leader_epoch=0, partition_epoch=0, directories=[bytes(16)] * len(replicas),
    )  # fmt: skip


def test_first_image_is_summarized(caplog: pytest.LogCaptureFixture) -> None:
    node = Published(caplog)
    found = node.publish(
        RegisterBrokerRecord(broker_id=0, fenced=False), TopicRecord("a", topic_id(1)), partition(1, 0, 0, 0),
        partition(1, 1, 0, 0),
    )  # fmt: skip
    assert found == ["metadata loaded up to offset 3: 1 topics with 2 partitions, 1 brokers"]


def test_each_change_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    node = Published(caplog)
    node.publish(RegisterBrokerRecord(broker_id=0, fenced=False))
    assert node.publish(
        TopicRecord("a", topic_id(1)), partition(1, 0, 0, 0, 2), partition(1, 1, 2, 2), TopicRecord("b", topic_id(2)),
        partition(2, 0, 2, 2, 0),
    ) == [
        "topic a created: 2 partitions, replication factor 1/2",
        "topic b created: 1 partitions, replication factor 2",
        "this broker leads 1 partitions: a-0",
    ]  # fmt: skip
    assert node.publish(partition(1, 2, 0, 0), partition(1, 3, 2, 2)) == [
        "topic a: 2 partitions added, 4 now",
        "this broker leads 1 partitions: a-2",
    ]
    assert node.publish(
        PartitionChangeRecord(0, topic_id(1), leader=2), PartitionChangeRecord(0, topic_id(2), leader=0)
    ) == [
        "this broker leads 1 partitions: b-0",
        "this broker no longer leads 1 partitions: a-0",
    ]
    assert node.publish(PartitionChangeRecord(0, topic_id(2), isr=[0])) == []
    assert node.publish(RemoveTopicRecord(topic_id(2))) == ["topic b deleted"]
    assert node.publish(
        ConfigRecord(2, "a", "retention.ms", "5"), ConfigRecord(2, "a", "cleanup.policy", "compact"),
        ConfigRecord(4, "", "num.io.threads", "3"), FeatureLevelRecord(name="metadata.version", feature_level=26),
    ) == [
        "configuration of topic a: cleanup.policy, retention.ms",
        "configuration of broker default: num.io.threads",
        "feature metadata.version is finalized at level 26",
    ]  # fmt: skip


def test_each_change_of_a_broker_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    node = Published(caplog)
    node.publish(RegisterBrokerRecord(broker_id=0, broker_epoch=1, fenced=False))
    assert node.publish(RegisterBrokerRecord(broker_id=2, broker_epoch=5, fenced=True)) == [
        "broker 2 registered with epoch 5"
    ]
    assert node.publish(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, fenced=-1)) == ["broker 2 unfenced"]
    shutdown = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, in_controlled_shutdown=1)
    assert node.publish(shutdown) == ["broker 2 is in controlled shutdown"]
    assert node.publish(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, log_dirs=[topic_id(3)])) == []
    assert node.publish(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, fenced=1)) == ["broker 2 fenced"]
    assert node.publish(RegisterBrokerRecord(broker_id=2, broker_epoch=9, fenced=False)) == [
        "broker 2 registered with epoch 9",
        "broker 2 unfenced",
    ]
    assert node.publish(UnregisterBrokerRecord(2, 9)) == ["broker 2 unregistered"]


def test_many_changes_have_a_limited_number_of_lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "MOST_LINES", 2)
    monkeypatch.setattr(change_log, "MOST_TOPICS", 4)
    node = Published(caplog)
    node.publish(RegisterBrokerRecord(broker_id=0, fenced=False))

    def topics(first: int, count: int) -> list[Message]:
        numbers = range(first, first + count)
        return [
            record
            for number in numbers
            for record in (TopicRecord(f"t{number}", topic_id(number)), partition(number, 0, 0, 0))
        ]

    assert node.publish(*topics(1, 2))[2:] == ["this broker leads 2 partitions: t1-0, t2-0"]
    assert node.publish(*topics(3, 4)) == [
        "topic t3 created: 1 partitions, replication factor 1",
        "topic t4 created: 1 partitions, replication factor 1",
        "2 more topics created",
        "this broker leads 4 partitions: t3-0, t4-0 and 2 more",
    ]
    assert node.publish(*topics(7, 5))[2:] == ["3 more topics created", "5 topics have changed"]


def test_nothing_is_made_for_lines_that_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "odradek.metadata")
    unusable: Any = object()
    log_changes(0, unusable, unusable, unusable)
    assert caplog.records == []
