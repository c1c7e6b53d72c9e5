"""A Produce that waits, in simulated time: for a thread, the disk and the replicas; and the check of its transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.acks import ALL_IN_SYNC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.network.call import Call
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.parked_requests import BUCKET_MS, Deadlines
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.produce.parked_produce import ParkedProduce
from odradek.server.produce.produce_path import ProducePath
from odradek.server.produce.produce_response import add_leaders, end_unanswered, fill
from odradek.server.produce.transactional_produce import TransactionalProduce

from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_verification import NotedVerification
from tests.server.harness.scripted_leaders import ScriptedLeaders
from tests.server.harness.set_clock import SetClock
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, SECOND = 0, 2


def produced(count: int = 1, **options: Any) -> bytearray:
    return bytearray(encode_batch([Record(number, NOW_MS, b"k", b"v") for number in range(count)], **options))


class Disk:
    """A pool whose work the test ends."""

    def __init__(self) -> None:
        self.started: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self.disk = self.cpu = self

    def start(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.started.append((work, done))
        return done

    async def end(self) -> None:
        work, done = self.started[-1]
        done.set_result(work())
        await turns()


class Harness:
    """A broker that leads partitions of one topic, and a request of a client to it."""

    def __init__(self, path: Path, count: int = 1, *, followers: tuple[int, ...] = (), **config: int) -> None:
        self.disk: Any = Disk()
        self.hosted = [Hosted(path, OWN, index=index, pools=self.disk, **config) for index in range(count)]
        for hosted in self.hosted:
            hosted.lead(*followers)
        deadlines = Deadlines(asyncio.get_running_loop())
        self.path = ProducePath(loop_clock(), deadlines, NotedPartitions(self.hosted), ScriptedLeaders())
        self.connection = NotedConnection()
        self.received = self.connection.listener.shared.receiving.noted
        self.closed = self.connection.closings
        self.calls = NotedCalls(self.connection)
        self.replies: list[ProduceResponse] = self.calls.responses

    def call(self, *, acks: int = ALL_IN_SYNC, timeout_ms: int = 1000, version: int = 13) -> Call[ProduceRequest]:
        return self.calls.call(ProduceRequest(None, acks, timeout_ms, []), version)

    def park(self, results: list[AppendResult], **options: Any) -> list[PartitionProduceResponse]:
        partitions = [PartitionProduceResponse(index) for index in range(len(results))]
        for partition, result in zip(partitions, results):
            fill(partition, result)
        response = ProduceResponse([TopicProduceResponse("", TOPIC_ID, partitions)])
        waiting = list(zip(self.hosted, results, partitions))
        ParkedProduce(self.path, self.call(**options), response, waiting)
        return partitions

    def errors(self) -> list[int]:
        return [one.error_code for one in self.replies[-1].responses[0].partition_responses]


def test_response_follows_the_last_partition_that_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(SECOND,))
        responses = harness.park([hosted.append(produced(), NOW_MS) for hosted in harness.hosted])
        harness.hosted[0].follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        assert harness.replies == []
        harness.hosted[1].follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        assert harness.errors() == [0, 0] and [one.base_offset for one in responses] == [0, 0]
        await after_ms(2000)
        assert len(harness.replies) == 1

    simulated(story)


def test_response_at_its_deadline_has_the_offsets_beside_the_error(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(SECOND,))
        responses = harness.park([hosted.append(produced(), NOW_MS) for hosted in harness.hosted], timeout_ms=300)
        harness.hosted[0].follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        await after_ms(299)
        assert harness.replies == []
        await after_ms(BUCKET_MS + 2)
        assert harness.errors() == [0, ErrorCode.REQUEST_TIMED_OUT]
        assert [one.base_offset for one in responses] == [0, 0]
        harness.hosted[1].follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        assert harness.errors() == [0, ErrorCode.REQUEST_TIMED_OUT] and len(harness.replies) == 1

    simulated(story)


def test_isr_that_became_too_small_is_an_error_after_the_append(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(SECOND,))
        hosted = harness.hosted[0]
        harness.park([hosted.append(produced(), NOW_MS)])
        hosted.lead(SECOND, isr=(OWN,), partition_epoch=1)
        hosted.follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        assert harness.errors() == [0], "one is enough"
        harness.park([hosted.append(produced(), NOW_MS)])
        hosted.role.min_insync_replicas, hosted.role.proposal = 2, None
        hosted._committing[0][1](0)
        assert harness.errors() == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]

    simulated(story)


@pytest.mark.parametrize(("acks", "waits"), [(ALL_IN_SYNC, True), (1, True), (0, False)])
def test_flush_messages_delays_the_response(acks: int, waits: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, flush_messages=1)
        result = harness.hosted[0].append(produced(), NOW_MS)
        assert result.must_flush
        harness.park([result], acks=acks)
        assert (harness.replies == [] and harness.calls.unanswered == 0) == waits
        await harness.disk.end()
        assert (len(harness.replies), harness.calls.unanswered) == ((1, 0) if acks else (0, 1))
        assert harness.closed == []

    simulated(story)


def test_failed_flush_leaves_no_offset_in_the_response(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, flush_messages=1)
        hosted = harness.hosted[0]
        (response,) = harness.park([hosted.append(produced(), NOW_MS)], acks=1)
        hosted.offline = True
        await harness.disk.end()
        assert harness.errors() in ([ErrorCode.KAFKA_STORAGE_ERROR], [0])
        assert (response.base_offset == -1) == (response.error_code != 0)

    simulated(story)


@pytest.mark.parametrize("acks", [ALL_IN_SYNC, 1])
def test_timeout_begins_when_the_threads_have_opened_the_batches(acks: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(SECOND,))
        results = [hosted._enqueue(produced(2), NOW_MS, acks, 13, False) for hosted in harness.hosted]
        sizes = 2 * len(produced(2))
        responses = harness.park(results, timeout_ms=300, acks=acks)
        await after_ms(5000)
        assert harness.replies == [] and harness.received == [sizes]
        for work, done in harness.disk.started:
            assert harness.received == [sizes]
            done.set_result(work())
            await turns()
        assert harness.received == [sizes, -sizes]
        assert [one.base_offset for one in responses] == [0, 0]
        assert bool(harness.replies) == (acks == 1)
        await after_ms(299)
        assert len(harness.replies) == int(acks == 1)
        await after_ms(BUCKET_MS + 2)
        assert harness.errors() == ([0, 0] if acks == 1 else [ErrorCode.REQUEST_TIMED_OUT] * 2)

    simulated(story)


def test_opened_batch_that_is_refused_is_noted_for_those_behind_it(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(SECOND,))
        hosted = harness.hosted[0]
        data = produced(producer_id=7, producer_epoch=0, base_sequence=3)
        result = hosted._enqueue(data, NOW_MS, 1, 13, False)
        (response,) = harness.park([result], acks=1)
        hosted.follow_leader(SECOND, epoch=2)
        await harness.disk.end()
        assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and response.base_offset == -1
        assert bool(harness.connection.rejected_batches)
        assert (response.current_leader.leader_id, response.current_leader.leader_epoch) == (9, 4)

    simulated(story)


# ---- responses


def test_result_of_an_append_fills_the_response() -> None:
    response = PartitionProduceResponse(3)
    fill(response, AppendResult(87, 5, 6, 7, record_errors=((2, "no key"),), error_message="words"))
    assert (response.error_code, response.base_offset) == (87, 5)
    assert (response.log_append_time_ms, response.log_start_offset) == (6, 7)
    assert response.error_message == "words"
    assert [(one.batch_index, one.batch_index_error_message) for one in response.record_errors] == [(2, "no key")]


@pytest.mark.parametrize(("version", "has_leaders"), [(9, False), (10, True), (13, True)])
def test_partitions_that_others_lead_have_their_leader(version: int, has_leaders: bool) -> None:
    async def story() -> None:
        harness = Harness(Path("/nowhere"), 0)
        responses = [PartitionProduceResponse(index, error) for index, error in enumerate((6, 6, 0))]
        response = ProduceResponse([TopicProduceResponse(TOPIC, bytes(16), responses)])
        add_leaders(harness.path.leaders, harness.call(version=version), response)
        found = [(one.current_leader.leader_id, one.current_leader.leader_epoch) for one in responses]
        assert found == ([(9, 4), (9, 4), (-1, -1)] if has_leaders else [(-1, -1)] * 3)
        assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == (
            [(9, "h", 1)] if has_leaders else []
        )

    simulated(story)


@pytest.mark.parametrize(("error", "closes"), [(0, False), (6, True)])
def test_error_without_acks_closes_the_connection(error: int, closes: bool) -> None:
    async def story() -> None:
        harness = Harness(Path("/nowhere"), 0)
        responses = [PartitionProduceResponse(0), PartitionProduceResponse(1, error)]
        end_unanswered(harness.call(acks=0), ProduceResponse([TopicProduceResponse(TOPIC, bytes(16), responses)]))
        assert harness.calls.unanswered == 1 and bool(harness.closed) == closes
        if closes:
            assert (
                f"'{TOPIC}-1': 'NOT_LEADER_OR_FOLLOWER'" in harness.closed[0] and f"{TOPIC}-0" not in harness.closed[0]
            )

    simulated(story)


# ---- transactions


class Verifying:
    """A transactional Produce to partitions that this broker leads, except number 9."""

    def __init__(self, path: Path, count: int = 2, *, is_enabled: bool = True) -> None:
        self.hosted = [Hosted(path, OWN, index=index) for index in range(count)]
        for hosted in self.hosted:
            hosted.lead()
        config = BrokerConfig({"transaction.partition.verification.enable": str(is_enabled).lower()})
        self.verification = NotedVerification()
        self.produce = TransactionalProduce(config, SetClock(NOW_MS), NotedPartitions(self.hosted), self.verification)
        self.calls = NotedCalls(NotedConnection())

    def call(self, *data: PartitionProduceData, version: int = 12) -> Call[ProduceRequest]:
        by_id = version >= 13
        topic = TopicProduceData("" if by_id else TOPIC, TOPIC_ID if by_id else bytes(16), list(data))
        return self.calls.call(ProduceRequest("id", -1, 1000, [topic]), version)


def transactional(index: int, sequence: int = 0, **options: Any) -> PartitionProduceData:
    values = {"producer_id": 7, "producer_epoch": 2, "base_sequence": sequence, "transactional": True, **options}
    return PartitionProduceData(index, produced(**values))


@pytest.mark.parametrize(
    ("version", "is_enabled", "is_trusted"),
    [(11, True, False), (11, False, True), (12, True, False), (12, False, False)],
)
def test_old_clients_are_trusted_where_the_configuration_says_so(
    version: int, is_enabled: bool, is_trusted: bool, tmp_path: Path
) -> None:
    assert Verifying(tmp_path, is_enabled=is_enabled).produce.is_trusted(version) == is_trusted


@pytest.mark.parametrize(("version", "adds"), [(11, False), (12, True), (13, True)])
def test_partitions_that_are_not_known_to_be_in_the_transaction_are_verified(
    version: int, adds: bool, tmp_path: Path
) -> None:
    harness = Verifying(tmp_path, 5)
    open_, other = harness.hosted[0], harness.hosted[1]
    open_.append(transactional(0).records, NOW_MS, is_in_transaction=True)
    harness.hosted[4].follow_leader(SECOND, epoch=2)
    call = harness.call(
        transactional(0, 1), transactional(1, 5), PartitionProduceData(2, produced()), PartitionProduceData(3, None),
        transactional(4), transactional(9), version=version,
    )  # fmt: skip
    found = harness.produce.unverified(call)
    assert found is not None
    assert found.membership == ("id", 7, 2, ((TOPIC, 1),), adds)
    assert found.sequences == {(TOPIC, 1): 5}
    verification = other.log.producers.verifications[7]
    assert found.verifications == {(TOPIC, 1): verification}
    assert (verification.epoch, verification.lowest_sequence, verification.bumps_epochs) == (2, 5, adds)
    denied = {TOPIC_ID if version >= 13 else TOPIC}
    assert harness.produce.unverified(call, denied) is None
    assert harness.produce.unverified(harness.call(transactional(0, 1), version=version)) is None


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (0, 12, 0),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_error_of_the_coordinator_becomes_one_that_producers_of_the_version_know(
    error: int, version: int, expected: int, tmp_path: Path
) -> None:
    harness = Verifying(tmp_path)
    call = harness.call(transactional(0), version=version)
    found = harness.produce.unverified(call)
    assert found is not None
    given: list[Any] = []
    received = call.request.topic_data[0].partition_data[0].records
    harness.produce.verify(call, found, given.append)
    assert harness.calls.held == 1 and call.request.topic_data[0].partition_data[0].records is not received
    _, membership, answered, _ = harness.verification.asked[0]
    assert membership == found.membership
    answered({(TOPIC, 0): error})
    assert given == [{(TOPIC, 0): expected}]


@pytest.mark.parametrize("event", ["marker", "removed", "repeated"])
def test_verification_that_its_transactions_end_overtook_is_void(event: str, tmp_path: Path) -> None:
    harness = Verifying(tmp_path)
    call = harness.call(transactional(0))
    found = harness.produce.unverified(call)
    assert found is not None
    given: list[Any] = []
    harness.produce.verify(call, found, given.append)
    _, _, answered, again = harness.verification.asked[0]
    hosted = harness.hosted[0]
    assert hosted.end_transaction(Marker(7, 2, False, 1, 1), NOW_MS).error == 0
    if event == "removed":
        del harness.hosted[0]
    elif event == "repeated":
        again()
        assert found.verifications[TOPIC, 0] is hosted.log.producers.verifications[7]
    answered({(TOPIC, 0): 0})
    assert given == [{(TOPIC, 0): 0} if event == "repeated" else {}]
