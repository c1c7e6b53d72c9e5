"""The shard of transactions in simulated time, with a scripted state machine: producer ids, markers, and their retries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.coordinator.result import Output, Record, Reply
from odradek.coordinator.transaction_requests import (
    MarkersWritten,
    NeedProducerId,
    ProducerIdTaken,
    SendMarkers,
)
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.transaction_state import TransactionLogKey
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.server.coordinators.transaction_driver import (
    MARKER_RETRY_MS,
    OVERTAKEN_RETRY_MS,
    OVERTAKEN_TRIES,
    TRIES_FOR_UNKNOWN_PARTITIONS,
    TransactionShardDriver,
)

from tests.server.harness.hosted import NOW_MS, Hosted
from tests.server.harness.images import cache_of, image_with, topic_records
from tests.server.harness.shard_driver import Somebody
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, SECOND = 0, 2
EPOCH = 4
PARTITIONS = (("t", 0), ("t", 1))
DECIDED = SendMarkers("id", 7, 3, True, 2, PARTITIONS)


class Machine:
    """A state machine whose outputs the test scripts. It awaits the partitions in `awaited`."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(next_offset=0, config=None)
        self.handled: list[Any] = []
        self.needs_id = False
        self.awaited = set(PARTITIONS)
        self.next: list[Callable[[Any], Output]] = []
        self._output = Output([], [])

    def needs_producer_id(self, request: Any, version: int) -> bool:
        return self.needs_id

    def handle(self, message: Any, now: int) -> None:
        self.handled.append(message)
        if isinstance(message, MarkersWritten):
            self.awaited -= message.partitions
        elif self.next:
            self._output = self.next.pop(0)(message)
            self.state.next_offset += len(self._output.records)

    def take(self) -> Output:
        output, self._output = self._output, Output([], [])
        return output

    def deadline(self) -> int | None:
        return None

    def awaits(self, markers: SendMarkers, partition: Any) -> bool:
        return partition in self.awaited

    def written(self) -> list[set[Any]]:
        return [set(one.partitions) for one in self.handled if isinstance(one, MarkersWritten)]


class Harness:
    def __init__(self, path: Path, *followers: int) -> None:
        self.hosted = Hosted(path, OWN)
        self.hosted.lead(*followers, epoch=EPOCH, now_ms=NOW_MS)
        self.metadata = cache_of(image_with(*topic_records("t", (0,), (0,))))
        self.sent: list[tuple[str, int, Any, Callable[[int], None]]] = []
        self.ids: list[Callable[[int, int], None]] = []
        self.waiting: list[Callable[[], None]] = []
        markers: Any = SimpleNamespace(send=lambda *sent: self.sent.append(sent), when_written=self.waiting.append)
        ids: Any = SimpleNamespace(take=self.ids.append)
        none: Any = None
        self.driver = TransactionShardDriver(self.hosted, none, loop_clock().now_ms, self.metadata, ids, markers)
        self.machine = Machine()
        self.driver._shard = self.machine
        self.responses: list[int] = []

    def submit(self) -> None:
        self.driver.submit(EndTxnRequest(), 5, Somebody(), lambda response: self.responses.append(response.error_code))

    def decide(self, *effects: Any, records: int = 0) -> None:
        """Submits a request that is decided with the effects and a reply."""

        def output(message: Any) -> Output:
            made = [Record(TransactionLogKey(transactional_id=str(number)), None) for number in range(records)]
            return Output(made, [*effects, Reply(message.token, EndTxnResponse())])

        self.machine.next.append(output)
        self.submit()


def test_reply_follows_the_markers_that_are_written_here(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(DECIDED)
        assert [(topic, index) for topic, index, _, _ in harness.sent] == [("t", 0), ("t", 1)]
        marker = harness.sent[0][2]
        assert tuple(marker) == (7, 3, True, EPOCH, 2)
        assert harness.responses == []
        harness.waiting[0]()
        assert harness.responses == [0]
        harness.sent[1][3](0)
        assert harness.machine.written() == [{("t", 1)}]
        harness.sent[0][3](0)
        assert harness.machine.written() == [{("t", 1)}, {("t", 0)}]
        written = harness.machine.handled[-1]
        assert (written.transactional_id, written.producer_id, written.producer_epoch) == ("id", 7, 3)
        harness.decide()
        assert harness.responses == [0, 0] and len(harness.waiting) == 1, "without markers it does not wait"

    simulated(story)


def test_transaction_without_partitions_is_complete_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(DECIDED._replace(partitions=()))
        assert harness.sent == [] and harness.machine.written() == [set()]

    simulated(story)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS]
)
def test_marker_that_cannot_be_written_is_sent_again(error: ErrorCode, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(DECIDED._replace(partitions=PARTITIONS[:1]))
        for count in range(1, 2 * TRIES_FOR_UNKNOWN_PARTITIONS):
            assert len(harness.sent) == count
            harness.sent[-1][3](error)
            await after_ms(MARKER_RETRY_MS - 3)
            assert len(harness.sent) == count
            await after_ms(5)
        assert harness.machine.written() == []
        harness.sent[-1][3](0)
        assert harness.machine.written() == [{("t", 0)}]
        await after_ms(1000)
        assert len(harness.sent) == 2 * TRIES_FOR_UNKNOWN_PARTITIONS

    simulated(story)


def test_marker_for_a_partition_that_was_deleted_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.metadata.image = EMPTY_IMAGE
        harness.decide(DECIDED._replace(partitions=PARTITIONS[:1]))
        for _ in range(TRIES_FOR_UNKNOWN_PARTITIONS):
            assert harness.machine.written() == []
            harness.sent[-1][3](ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await after_ms(MARKER_RETRY_MS + 2)
        assert len(harness.sent) == TRIES_FOR_UNKNOWN_PARTITIONS and harness.machine.written() == [{("t", 0)}]

    simulated(story)


@pytest.mark.parametrize("event", ["answered", "dropped"])
def test_marker_that_is_awaited_no_longer_is_not_sent_again(event: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(DECIDED)
        harness.sent[0][3](ErrorCode.NETWORK_EXCEPTION)
        if event == "answered":
            harness.machine.awaited.clear()
        else:
            harness.driver.resign()
        await after_ms(1000)
        assert len(harness.sent) == 2
        harness.sent[1][3](0)
        assert len(harness.machine.written()) == int(event == "answered")

    simulated(story)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
@pytest.mark.parametrize("committed", [True, False])
def test_marker_that_a_later_one_overtook_is_given_up_after_a_broker_session(
    error: ErrorCode, committed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(DECIDED._replace(partitions=PARTITIONS[:1], committed=committed))
        for count in range(1, OVERTAKEN_TRIES):
            assert len(harness.sent) == count
            harness.sent[-1][3](error)
            assert caplog.text.count("the marker is retried") == 1, "with the first one"
            await after_ms(OVERTAKEN_RETRY_MS - 10)
            assert len(harness.sent) == count
            await after_ms(12)
        assert harness.machine.written() == []
        harness.sent[-1][3](error)
        assert harness.machine.written() == [{("t", 0)}]
        await after_ms(5000)
        assert len(harness.sent) == OVERTAKEN_TRIES

    simulated(story)
    said = [one.getMessage() for one in caplog.records if one.name == "odradek.transactions"]
    assert len(said) == 2 and "the marker is retried" in said[0]
    assert f"is {'committed' if committed else 'aborted'}, but" in said[1]


def test_overtaken_marker_of_a_dropped_shard_is_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(DECIDED._replace(partitions=PARTITIONS[:1]))
        for _ in range(OVERTAKEN_TRIES - 1):
            harness.sent[-1][3](ErrorCode.INVALID_PRODUCER_EPOCH)
            await after_ms(OVERTAKEN_RETRY_MS + 2)
        harness.machine.awaited.clear()
        harness.sent[-1][3](ErrorCode.INVALID_PRODUCER_EPOCH)
        assert harness.machine.written() == []

    simulated(story)
    assert "rejects this" not in caplog.text


# ---- decisions that are not committed in time


@pytest.mark.parametrize("is_committed", [True, False])
def test_markers_of_a_decision_that_is_committed_late_are_sent_then(is_committed: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, SECOND)
        harness.decide(DECIDED, NeedProducerId("id"), records=1)
        await after_ms(5000 + 20)
        assert harness.responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and harness.sent == [] and harness.ids == []
        if is_committed:
            harness.hosted.follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        else:
            harness.hosted.follow_leader(SECOND, epoch=EPOCH + 1)
        await turns()
        assert len(harness.sent) == (2 if is_committed else 0), "each marker once"
        assert harness.responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    simulated(story)


# ---- producer ids


@pytest.mark.parametrize(("error", "producer_id"), [(0, 55), (0, 0), (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)])
def test_request_that_needs_a_producer_id_gets_one_first(error: int, producer_id: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.machine.needs_id = True
        harness.submit()
        assert harness.machine.handled == []
        harness.ids[0](error, producer_id)
        if error:
            assert harness.responses == [error] and harness.machine.handled == []
        else:
            (request,) = harness.machine.handled
            assert request.new_producer_id == producer_id
            harness.machine.needs_id = False
            harness.submit()
            assert harness.machine.handled[1].new_producer_id == -1
        harness.driver.resign()
        harness.machine.needs_id = True
        harness.submit()
        assert len(harness.ids) == 1 and harness.responses[-1] == ErrorCode.NOT_COORDINATOR

    simulated(story)


@pytest.mark.parametrize(("error", "is_told"), [(0, True), (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False)])
def test_state_machine_gets_the_producer_id_that_it_requests(error: int, is_told: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.decide(NeedProducerId("id"))
        harness.ids[0](error, 55)
        reported = [one for one in harness.machine.handled if isinstance(one, ProducerIdTaken)]
        assert reported == ([ProducerIdTaken("id", 55)] if is_told else [])
        harness.decide(NeedProducerId("id"))
        harness.driver.resign()
        harness.ids[1](0, 66)
        assert len(harness.machine.handled) == 2 + len(reported)

    simulated(story)
