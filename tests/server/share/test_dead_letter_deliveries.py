"""Delivery of dead-letter records that cannot be written at once, or at all."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from immutables import Map
from odradek.coordinator.dead_letters import MOST_TRIES, DeadLetter
from odradek.metadata.image import (
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.server.controller.leaders import Leaders
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.server.share.dead_letters import Counters, DeadLetters

from tests.server.harness.hosted import Hosted
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_peers import NotedPeers

GROUP, QUEUE = "g", "dlq.t"
DEAD_LETTER = DeadLetter(3, 4, 1, is_rejected=True)


def image(leader: int | None) -> MetadataImage:
    """Returns an image. `leader`: that of the queue's only partition, -1 for none; None if there is no topic yet."""
    topics = Map[str, TopicImage]()
    if leader is not None:
        topics = topics.set(QUEUE, TopicImage(QUEUE, b"q" * 16, Map({0: _led_by(leader)})))
    brokers = {1: BrokerImage(1, 0, bytes(16), Map({"P": Endpoint("P", "host", 1, 0)}), Map())}
    return MetadataImage(
        topics=TopicsImage(topics),
        cluster=ClusterImage(Map(brokers)),
        configs=Map(
            {
                (GROUP_RESOURCE, GROUP): Map({"errors.deadletterqueue.topic.name": QUEUE}),
                (TOPIC_RESOURCE, QUEUE): Map({"errors.deadletterqueue.group.enable": "true"}),
            }
        ),
    )


def _led_by(leader: int) -> PartitionImage:
    return PartitionImage((1,), (1,), leader, 0, 0, (bytes(16),))


@dataclass
class Harness:
    """A broker whose peers and controller respond when the test calls a method, and whose clock needs no waits."""

    path: Path
    first_image: MetadataImage
    metadata: MetadataCache = field(default_factory=MetadataCache)
    now: int = 0
    peers: NotedPeers = field(default_factory=NotedPeers)
    created: list[Callable[[Any], None]] = field(default_factory=list)
    later: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    is_wanted: bool = True

    def __post_init__(self) -> None:
        config = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
        self.metadata.image = self.first_image
        leaders = Leaders(self.metadata, NotedPartitions(), inter_broker_listener="P", node_id=9)
        node = node_of(config, clock=self, metadata=self.metadata)
        peers = Lazy(lambda: self.peers)
        self.dead_letter_records = DeadLetters(node, leaders, peers, lambda _, created: self.created.append(created))
        self.source = Hosted(self.path, topic="t")

    def now_ms(self) -> int:
        return self.now

    def call_at(self, deadline_ms: int, function: Callable[[], None]) -> None:
        self.later.append((deadline_ms, function))

    async def send(self, dead_letter: DeadLetter = DEAD_LETTER) -> None:
        self.dead_letter_records.send(
            GROUP, self.source, dead_letter, lambda: self.is_wanted, partial(self.done.append, dead_letter.first)
        )
        await turn()

    async def write(self, error: int | None) -> None:
        """Responds to the Produce; None means no response."""
        partition = PartitionProduceResponse(0, error or 0)
        topic = TopicProduceResponse(QUEUE, b"q" * 16, [partition])
        self.peers.sent.pop(0).reply(None if error is None else ProduceResponse(responses=[topic]))
        await turn()

    async def create(self, error: int, leader: int | None) -> None:
        """Responds to CreateTopics, after it has set the published metadata."""
        self.metadata.image = image(leader)
        self.created.pop(0)(CreateTopicsResponse(topics=[CreatableTopicResult(name=QUEUE, error_code=error)]))
        await turn()

    async def go_on(self) -> int:
        """Advances the clock to the next retry. Returns the time until then."""
        began = self.now
        self.now, function = self.later.pop(0)
        function()
        await turn()
        return self.now - began


async def turn() -> None:
    """Runs the work that was scheduled for the next turns of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_written_dead_letter_record_is_done_and_counted(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(1))
    await harness.send()
    assert harness.done == []
    await harness.write(0)
    assert harness.done == [3]
    assert harness.dead_letter_records.counters[GROUP] == Counters(records=2, produces=1)


@pytest.mark.parametrize("error", [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID])
async def test_transient_error_is_retried_then_given_up(
    error: ErrorCode | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(tmp_path, image(1))
    await harness.send()
    waits = []
    for _ in range(MOST_TRIES - 1):
        await harness.write(error)
        waits.append(await harness.go_on())
    assert all(1.2 * shorter < longer for shorter, longer in itertools.pairwise(waits)), waits
    assert harness.done == []
    with caplog.at_level(logging.ERROR):
        await harness.write(error)
    assert (harness.done, harness.later) == ([3], [])
    assert harness.dead_letter_records.counters[GROUP] == Counters(produces=MOST_TRIES, failed_produces=1)
    assert "offsets 3 to 4 of t-0 are archived without a dead-letter record" in caplog.text


async def test_permanent_error_is_given_up_at_once(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(1))
    await harness.send()
    await harness.write(ErrorCode.MESSAGE_TOO_LARGE)
    assert (harness.done, harness.later) == ([3], [])
    assert harness.dead_letter_records.counters[GROUP] == Counters(produces=1, failed_produces=1)


async def test_a_leader_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(-1))
    await harness.send()
    assert harness.peers.sent == []
    harness.metadata.image = image(1)
    await harness.go_on()
    await harness.write(0)
    assert harness.done == [3]


async def test_topic_is_created_once_for_all_waiting_dead_letter_records(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(None))
    await harness.send()
    await harness.send(DEAD_LETTER._replace(first=7, last=7))
    assert len(harness.created) == 1
    await harness.create(ErrorCode.NONE, 1)
    await harness.write(0)
    assert harness.done == [3, 7]


async def test_a_topic_that_another_creates_is_waited_for(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(None))
    await harness.send()
    await harness.create(ErrorCode.TOPIC_ALREADY_EXISTS, None)
    harness.metadata.image = image(1)
    await harness.go_on()
    await harness.write(0)
    assert harness.done == [3]


async def test_a_topic_that_cannot_be_created_is_no_queue(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(None))
    await harness.send()
    await harness.create(ErrorCode.POLICY_VIOLATION, None)
    assert (harness.done, harness.later, harness.created) == ([3], [], [])


async def test_configuration_is_read_before_each_retry(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(1))
    await harness.send()
    await harness.write(None)
    harness.metadata.image = harness.metadata.image._replace(configs=Map())
    await harness.go_on()
    assert (harness.done, harness.peers.sent) == ([3], [])


async def test_unwanted_dead_letter_record_is_left_to_the_next_leader(tmp_path: Path) -> None:
    harness = Harness(tmp_path, image(1))
    await harness.send()
    await harness.write(None)
    harness.is_wanted = False
    await harness.go_on()
    assert (harness.done, harness.peers.sent, harness.later) == ([], [], [])
