"""Requests that once stalled the broker: it answers or rejects each, and no turn of the loop is long."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.server.network import large_requests
from odradek.server.runtime.memory import LARGE_BYTES
from odradek.server.runtime.turn_budget import TURN_BUDGET_S

from tests.hostile.cost_check import GROUP, LONGEST_TURN_S, TOPIC, made_world
from tests.hostile.cost_probe import MeasuredBroker, TurnProbe, frame_of

pytestmark = pytest.mark.usefixtures("sockets")

#: The API key.
OFFSET_FETCH = 9


@pytest.fixture(scope="module")
def measured() -> Iterator[MeasuredBroker]:
    with MeasuredBroker(**{"auto.create.topics.enable": False}) as broker:
        made_world(broker)
        yield broker


def unknown_names(count: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def broker_named(count: int) -> DescribeConfigsRequest:
    named = [DescribeConfigsResource(4, "1", None) for _ in range(count)]
    return DescribeConfigsRequest(named, include_synonyms=True, include_documentation=True)


def commit(count: int) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, number) for number in range(count)]
    topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
    return OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=topics)


def session(count: int) -> FetchRequest:
    partitions = [FetchPartition(partition=number, partition_max_bytes=100) for number in range(count)]
    return FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, session_epoch=0, topics=[FetchTopic(TOPIC, partitions=partitions)]
    )


def joined(version: int) -> bytes:
    """Returns a JoinGroup whose metadata is too large for a record."""
    protocol = JoinGroupRequestProtocol("range", bytes(90_000_000))
    request = JoinGroupRequest(GROUP, session_timeout_ms=9000, rebalance_timeout_ms=9000, protocols=[protocol])
    request.protocol_type = "consumer"
    return frame_of(request, version)


def tagged() -> bytes:
    """Returns a Metadata request with a tagged field of 90 MB that no version defines."""
    return frame_of(MetadataRequest(topics=[], unknown_tags={99: bytes(90_000_000)}), 9)


def grown(count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, count)], timeout_ms=5000, validate_only=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (unknown_names(40_000), 9),
        (grown(1_000_000), 3),
        (grown((1 << 31) - 1), 3),
        (broker_named(10_000), 4),
        (commit(10_000), 8),
        (session(20_000), 12),
    ],
    ids=["Metadata", "CreatePartitions", "CreatePartitions-most", "DescribeConfigs", "OffsetCommit", "Fetch"],
)
def test_large_request_is_answered_without_a_long_turn(measured: MeasuredBroker, request_: Any, version: int) -> None:
    frame = frame_of(request_, version)
    assert measured.exchange(frame) > 0
    assert any(measured.longest_turn_s(frame) < LONGEST_TURN_S for _ in range(10))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [partial(joined, 3), partial(joined, 9), tagged], ids=["JoinGroup-3", "JoinGroup-9", "tag"]
)
def test_long_bytes_in_a_request_hold_the_loop_within_the_budget(
    measured: MeasuredBroker, make: Callable[[], bytes]
) -> None:
    frame = make()
    assert 0 < measured.exchange(frame) < 1000
    assert any(measured.longest_turn_s(frame) < TURN_BUDGET_S for _ in range(10))


@pytest.mark.slow
def test_fetch_session_of_very_many_partitions_is_opened_and_ended_within_the_budget(measured: MeasuredBroker) -> None:
    frame = frame_of(session(200_000), 12)
    assert measured.exchange(frame) > 0
    assert any(measured.longest_turn_s(frame) < TURN_BUDGET_S for _ in range(10))
    longest_s: list[float] = []
    while len(longest_s) < 10 and min(longest_s, default=TURN_BUDGET_S) >= TURN_BUDGET_S:
        measured.reconnect()
        measured.exchange(frame)
        probe = TurnProbe()
        measured.run(probe.start())
        measured.reconnect()
        measured.exchange(frame_of(unknown_names(1), 9))
        measured.wait_for(lambda: not len(measured.broker.server.fetch.sessions) and measured.is_idle())
        longest_s.append(measured.run(probe.stop()))
    assert min(longest_s) < TURN_BUDGET_S


@pytest.mark.slow
def test_broker_that_is_named_often_is_described_once(measured: MeasuredBroker) -> None:
    once = measured.exchange(frame_of(broker_named(1), 4))
    assert measured.exchange(frame_of(broker_named(1000), 4)) == once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(200_000)]), 9),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("", topics=None) for _ in range(40_000)]), 8),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("", topics=None) for _ in range(200_001)]), 8),
        (JoinGroupRequest(GROUP, protocols=[JoinGroupRequestProtocol(str(n)) for n in range(200_000)]), 5),
    ],
    ids=["Metadata", "OffsetFetch", "OffsetFetch-too-many", "JoinGroup"],
)
@pytest.mark.parametrize("cut", [0, 3])
def test_large_request_that_is_cut_or_has_too_many_items_ends_its_connection(
    measured: MeasuredBroker, request_: Any, version: int, cut: int
) -> None:
    body = frame_of(request_, version)[4:]
    frame = struct.pack(">i", len(body) - cut) + body[: len(body) - cut]
    is_whole = (
        not cut and len(getattr(request_, "groups", ())) <= 200_000 and not isinstance(request_, JoinGroupRequest)
    )
    assert (measured.exchange(frame) > 0) is is_whole
    if not is_whole:
        assert any(measured.longest_turn_s(frame) < LONGEST_TURN_S for _ in range(10))


@pytest.mark.slow
def test_memory_of_a_request_with_too_many_items_goes_back(
    measured: MeasuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[int] = []
    monkeypatch.setattr(large_requests, "release_after", released.append)
    groups = [OffsetFetchRequestGroup("", topics=None) for _ in range(200_001)]
    assert measured.exchange(frame_of(OffsetFetchRequest(groups=groups), 8)) == -1
    assert released and released[0] > LARGE_BYTES


@pytest.mark.slow
def test_modules_of_a_handler_are_imported_before_items_of_a_large_request(measured: MeasuredBroker) -> None:
    groups = [OffsetFetchRequestGroup("", topics=None) for _ in range(40_000)]
    frame = frame_of(OffsetFetchRequest(groups=groups), 8)
    measured.exchange(frame)
    route = measured.broker.server.network.dispatchers["broker"]._routes[(OFFSET_FETCH, 8)]
    waiting: list[Callable[[], None]] = []
    route.prepare = waiting.append
    try:
        measured.client.send_bytes(frame)
        measured.wait_for(lambda: bool(waiting))
        assert measured.run(idle_after_turns(measured))
    finally:
        route.prepare = None

    async def go_on() -> None:
        waiting[0]()

    measured.run(go_on())
    assert measured._received() > 0


async def idle_after_turns(measured: MeasuredBroker) -> bool:
    for _ in range(10):
        await asyncio.sleep(0)
    return measured.is_idle()
