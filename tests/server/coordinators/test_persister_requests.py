"""Requests of the persister for the state of share groups, in simulated time: to each coordinator, and repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStatePartitionResult,
    ReadStateResult,
)
from odradek.protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from odradek.server.coordinators.persister_requests import (
    FIRST_BACKOFF_MS,
    MOST_TRIES,
    Persister,
    reject_all,
    submit_here,
)
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.images import cache_of, image_with
from tests.server.harness.scripted_network import ELSEWHERE, Network
from tests.server.harness.shard_driver import Somebody
from tests.server.harness.virtual_time import after_ms, simulated

CLIENT = Somebody()


# ---- the persister


def of_one(partition: int, error: int = 0, topic: int = 1) -> ReadShareGroupStateResponse:
    found = ReadStatePartitionResult(partition=partition, error_code=error, start_offset=partition)
    return ReadShareGroupStateResponse(results=[ReadStateResult(bytes([topic]) * 16, [found])])


def state_request(*topics: list[int], group_id: str = "g") -> ReadShareGroupStateRequest:
    return ReadShareGroupStateRequest(
        group_id,
        [
            ReadStateData(bytes([number]) * 16, [ReadStatePartition(partition=index) for index in indexes])
            for number, indexes in enumerate(topics, 1)
        ],
    )


class Persisting:
    """A persister whose partitions are all on another broker."""

    topic = "__share_group_state"

    def __init__(self, *leads: int, has_topic: bool = True) -> None:
        self.network = Network(*leads)
        self.here: list[tuple[Any, ...]] = []
        self.ensured: list[Callable[[], None]] = []
        here: Any = self
        leaders: Any = self.network
        metadata = cache_of(image_with(*([TopicRecord(self.topic, b"s" * 16)] if has_topic else [])))
        self.persister = Persister(Lazy(lambda: here), metadata, leaders, self.network.peers)
        self.responses: list[Any] = []

    def partition_for(self, key: str) -> int:
        return int(key.rsplit(":", 1)[1])

    def submit(self, *asked: Any) -> None:
        self.here.append(asked)

    def ensure_topic(self, done: Callable[[], None]) -> None:
        self.ensured.append(done)

    def ask(self, request: Any) -> None:
        self.persister.ask(request, self.responses.append)


def test_state_is_requested_from_the_leader_of_each_part() -> None:
    async def story() -> None:
        harness = Persisting(1)
        harness.ask(state_request([1, 2], [3]))
        assert len(harness.here) == 1 and harness.here[0][2] == 99
        assert [(one.endpoint, one.timeout_ms, one.purpose) for one in harness.network.sent] == [
            (ELSEWHERE, 30_000, "share groups")
        ] * 2
        harness.network.sent[1].reply(of_one(3, topic=2))
        harness.network.sent[0].reply(of_one(2, ErrorCode.FENCED_STATE_EPOCH))
        assert harness.responses == []
        harness.here[0][4](of_one(1))
        (response,) = harness.responses
        assert [[(one.partition, one.error_code) for one in result.partitions] for result in response.results] == [
            [(1, 0), (2, ErrorCode.FENCED_STATE_EPOCH)],
            [(3, 0)],
        ]

    simulated(story)


@pytest.mark.parametrize("topics", [([1],), ([1, 2],), ([1], [3]), ([1], [3], [5]), ([], [1]), ([1], [2, 3])])
def test_requests_of_any_shape_are_divided_by_share_partition(topics: tuple[list[int], ...]) -> None:
    async def story() -> None:
        harness = Persisting()
        harness.ask(state_request(*topics))
        asked = [(number, index) for number, indexes in enumerate(topics, 1) for index in indexes]
        assert len(harness.network.sent) == len(asked) and harness.here == []
        for (number, index), sent in zip(asked, harness.network.sent):
            (topic,) = sent.request.topics
            assert (topic.topic_id[0], [one.partition for one in topic.partitions]) == (number, [index])
            sent.reply(of_one(index, topic=number))
        (response,) = harness.responses
        assert [(one.topic_id[0], [two.start_offset for two in one.partitions]) for one in response.results] == [
            (number, indexes) for number, indexes in enumerate(topics, 1) if indexes
        ]

    simulated(story)


def test_topic_of_states_is_created_first() -> None:
    async def story() -> None:
        harness = Persisting(has_topic=False)
        harness.ask(state_request([1]))
        assert harness.network.sent == []
        harness.ensured[0]()
        assert len(harness.network.sent) == 1

    simulated(story)


@pytest.mark.parametrize("failure", ["none", "retriable", "empty"])
def test_failed_request_for_states_is_repeated_with_growing_pauses(failure: str) -> None:
    async def story() -> None:
        harness = Persisting()
        harness.ask(state_request([1]))
        for count in range(1, MOST_TRIES + 1):
            assert len(harness.network.sent) == count and harness.responses == []
            if failure == "none":
                harness.network.sent[-1].reply(None)
            elif failure == "retriable":
                harness.network.sent[-1].reply(of_one(1, ErrorCode.NOT_COORDINATOR))
            else:
                harness.network.sent[-1].reply(ReadShareGroupStateResponse(results=[]))
                break
            if count < MOST_TRIES:
                pause_ms = FIRST_BACKOFF_MS << (count - 1)
                await after_ms(pause_ms - 3)
                assert len(harness.network.sent) == count
                await after_ms(6)
        (response,) = harness.responses
        expected = {
            "none": ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "retriable": ErrorCode.NOT_COORDINATOR,
            "empty": ErrorCode.UNKNOWN_SERVER_ERROR,
        }
        assert response.results[0].partitions[0].error_code == expected[failure]
        await after_ms(10_000)
        assert len(harness.network.sent) == (1 if failure == "empty" else MOST_TRIES)

    simulated(story)


@pytest.mark.parametrize(
    ("request_", "is_handled"),
    [(state_request([1, 2]), True), (state_request([1], []), False), (state_request([1], group_id=""), False)],
)
def test_request_of_another_broker_for_states_is_parted(request_: Any, is_handled: bool) -> None:
    harness = Persisting()
    responses: list[Any] = []
    driver: Any = harness
    submit_here(driver, request_, 0, CLIENT, responses.append)
    assert len(harness.here) == (2 if is_handled else 0)
    for number, asked in enumerate(harness.here, 1):
        assert asked[2:4] == (0, CLIENT)
        asked[4](of_one(number))
    (response,) = responses
    assert [[one.partition for one in result.partitions] for result in response.results] == (
        [[1, 2]] if is_handled else []
    )
    reject_all(state_request([1, 2]), ErrorCode.GROUP_ID_NOT_FOUND, responses.append)
    assert [one.error_code for one in responses[1].results[0].partitions] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
