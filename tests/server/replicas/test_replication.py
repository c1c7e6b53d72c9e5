"""Replicas on several brokers: their logs are equal byte for byte, whichever broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.produce import ProduceResponse
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.hosted_partition import TAKEOVER_MS
from odradek.server.replicas.followed_partition import FollowedPartition

from tests.server.harness.data_path import batch_of
from tests.server.harness.replicas import TOPIC, TOPIC_ID, Replicas, eventually

pytestmark = pytest.mark.usefixtures("sockets")

QUICK = {"replica.fetch.wait.max.ms": "100"}
#: For tests in which followers leave the ISR: they also leave when the machine is busy for so long.
SHORT_OF_PATIENCE = {**QUICK, "replica.lag.time.max.ms": "1000"}
#: An exceeded throttle opens again after 2 s, not 11.
SHORT_WINDOW = {"replication.quota.window.num": "2"}
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
#: A timestamp that is not in the future.
TIME_MS = 1_700_000_000_000


async def test_followers_have_the_same_bytes_and_know_what_is_committed(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 3, **QUICK) as replicas:
        replicas.create(1, 2, 3)
        leader = replicas.hosted(1)
        for number in range(20):
            replicas.produce(1, b"v%d" % number, b"x" * number * 100)
        assert leader.high_watermark == 0, "nobody else has them"
        await eventually(lambda: leader.high_watermark == leader.log_end_offset == 40)
        await replicas.equal(1, 2, 3)


@pytest.mark.parametrize(("leader", "follower"), [(1, 2), (1, 0), (0, 1)])
async def test_acks_all_waits_for_the_isr(tmp_path: Path, leader: int, follower: int) -> None:
    async with Replicas(tmp_path, 2, first=min(leader, follower), **QUICK) as replicas:
        replicas.create(leader, follower)
        for number in range(1, 4):
            committed: list[int] = []
            result = replicas.produce(leader, b"v", acks=-1)
            replicas.hosted(leader).when_committed(result.end_offset, committed.append)
            assert (result.error, committed) == (0, [])
            await eventually(lambda committed=committed: committed == [0])
            assert replicas.hosted(follower).log_end_offset == number
        assert replicas.hosted(leader).role.isr == (leader, follower)


@pytest.mark.parametrize("stranger", [0, 3])
async def test_fetch_by_a_broker_without_a_replica_is_rejected(tmp_path: Path, stranger: int) -> None:
    async with Replicas(tmp_path, 1, **QUICK) as replicas:
        replicas.create(1)
        asked = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            replica_state=ReplicaState(replica_id=stranger, replica_epoch=1),
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
        )
        (data,) = (await replicas.ask(1, request, 17)).responses[0].partitions
        assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_stalled_follower_leaves_isr_and_rejoins(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **SHORT_OF_PATIENCE) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"a")
        await replicas.equal(1, 2)
        replicas.server(2).replicas.replication().close()
        replicas.produce(1, b"b")
        await eventually(lambda: replicas.hosted(1).role.isr == (1,), "the follower is behind")
        assert replicas.hosted(1).high_watermark == 2
        replicas.follow_again(2)
        await eventually(lambda: replicas.hosted(1).role.isr == (1, 2))
        await replicas.equal(1, 2)
        epochs = {number: replicas.broker_image(number).epoch for number in (1, 2)}
        proposed = [{one.broker_id: one.broker_epoch for one in asked.new_isr_with_epochs} for asked in replicas.asked]
        assert epochs in proposed


async def test_too_few_in_sync_refuse_acks_all_and_commit_nothing(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **SHORT_OF_PATIENCE) as replicas:
        replicas.create(1, 2, min_insync_replicas="2")
        replicas.server(2).replicas.replication().close()
        replicas.produce(1, b"a", acks=-1)
        await eventually(lambda: replicas.hosted(1).role.isr == (1,))
        assert replicas.produce(1, b"b", acks=-1).error == ErrorCode.NOT_ENOUGH_REPLICAS
        assert replicas.hosted(1).high_watermark == 0


async def test_a_new_leader_has_what_differs_cut_off_and_goes_on(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 3, **QUICK) as replicas:
        replicas.create(1, 2, 3)
        replicas.produce(1, b"a")
        await replicas.equal(1, 2, 3)
        # Broker 1 does not get the leader change, and writes records that are later truncated.
        replicas.change(only=2, leader=2)
        replicas.change(only=3, leader=2)
        replicas.produce(1, b"lost", b"lost")
        replicas.produce(2, b"b")
        replicas.change(only=1, leader=2)
        await eventually(lambda: replicas.hosted(2).high_watermark == 2)
        await replicas.equal(2, 1, 3)
        assert [epoch for epoch, _ in replicas.hosted(1).log.epochs.entries()] == [0, 1]


async def test_new_leader_rejects_a_gap_until_the_batch_before_it_comes_or_30_s_have_passed(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)

        def produce(number: int, sequence: int, *, producer_id: int = 7, later_ms: int = 0) -> AppendResult:
            now_ms = replicas.server(number).node.clock.now_ms() + later_ms
            batch = batch_of(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            return replicas.hosted(number).append(batch, now_ms)

        assert [produce(1, 0).error, produce(1, 2).error] == [0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        await replicas.equal(1, 2)
        replicas.change(leader=2)
        assert produce(1, 1).error == NOT_LEADER
        # The client sends the next batch to the new leader before the rejected one; a new producer does so too.
        assert [produce(2, 2).error, produce(2, 5, producer_id=8).error] == [NOT_LEADER] * 2
        assert [(found := produce(2, sequence)).error or found.base_offset for sequence in (1, 2)] == [1, 2]
        assert produce(2, 4).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(2, 5, producer_id=8, later_ms=TAKEOVER_MS).error == 0
        await replicas.equal(2, 1)


async def test_leaders_that_wrote_nothing_leave_no_trace(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"a")
        await replicas.equal(1, 2)
        for leader in (2, 1, 2):
            replicas.change(leader=leader)
        replicas.produce(2, b"b")
        await eventually(lambda: replicas.hosted(2).high_watermark == 2)
        await replicas.equal(2, 1)


async def test_a_follower_that_was_away_too_long_starts_where_the_leader_does(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK, **{"log.retention.check.interval.ms": "50"}) as replicas:
        replicas.create(1, 2, isr=(1,), segment_bytes="1048576")
        replicas.server(2).replicas.replication().close()
        for _ in range(3):
            replicas.produce(1, b"x" * 700_000)
        leader = replicas.hosted(1)
        leader.advance_log_start_offset(2)
        await eventually(lambda: len(leader.log.segments) == 1)
        replicas.follow_again(2)
        await replicas.equal(1, 2)
        assert replicas.hosted(2).log_start_offset == 2


async def test_followers_advance_log_start_with_leader(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"a")
        replicas.produce(1, b"b")
        await replicas.equal(1, 2)
        replicas.hosted(1).advance_log_start_offset(1)
        await eventually(lambda: replicas.hosted(2).log_start_offset == 1)


async def test_a_process_that_the_metadata_does_not_know_is_not_taken_into_the_isr(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.server(2).controller.driver.broker_epoch += 1  # an epoch of a previous or a later incarnation
        replicas.create(1, 2, isr=(1,))
        replicas.produce(1, b"a")
        await eventually(lambda: replicas.hosted(2).log_end_offset == 1)
        await eventually(lambda: replicas.hosted(1).role.followers[2].end_offset == 1)
        assert replicas.hosted(1).role.isr == (1,)
        assert replicas.asked == []


async def test_a_proposal_that_gets_no_response_is_made_again(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.decides = False
        replicas.create(1, 2, isr=(1,))
        await eventually(lambda: len(replicas.asked) >= 2)
        replicas.produce(1, b"a")
        replicas.decides = True
        await eventually(lambda: replicas.hosted(1).role.isr == (1, 2))
        await replicas.equal(1, 2)


async def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there(tmp_path: Path) -> None:
    selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    racks = {1: {"broker.rack": "a"}, 2: {"broker.rack": "b"}}
    async with Replicas(tmp_path, 2, each=racks, **QUICK, **selector) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"v")
        await replicas.equal(1, 2)
        await eventually(
            lambda: replicas.hosted(2).high_watermark == 1, "the follower knows that the record is committed"
        )
        sent = await replicas.fetch(1, rack_id="b")
        assert (sent.error_code, sent.preferred_read_replica, bytes(sent.records)) == (0, 2, b"")
        read = await replicas.fetch(2, rack_id="b")
        assert (read.error_code, read.preferred_read_replica) == (0, -1)
        assert bytes(read.records) == replicas.bytes_of(1)
        assert (await replicas.fetch(1, rack_id="a")).preferred_read_replica == -1
        assert (await replicas.fetch(1)).preferred_read_replica == -1


async def fetched(
    replicas: Replicas, number: int, version: int, leader_epoch: int = -1, offset: int = 0
) -> FetchResponse:
    asked = FetchPartition(0, leader_epoch, offset, partition_max_bytes=1 << 20)
    name = {"topic": TOPIC} if version < 13 else {"topic_id": TOPIC_ID}
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(**name, partitions=[asked])])
    response: FetchResponse = await replicas.ask(number, request, version)
    return response


def led(replicas: Replicas, number: int) -> tuple[list[tuple[int, int]], list[tuple[int, str, int, str | None]]]:
    """Returns leader and epoch of the partition, and the leader's endpoint, in the form of a response (KIP-951)."""
    (endpoint,) = replicas.server(number).network.listeners.advertised_endpoints()
    now = replicas.partition(number)
    assert now.leader == number
    return [(number, now.leader_epoch)], [(number, endpoint.host, endpoint.port, f"rack-{number}")]


def reported(response: ProduceResponse | FetchResponse) -> tuple[int, tuple[Any, ...]]:
    """Returns the error of the one partition, and its leader according to the response."""
    (topic,) = response.responses
    (one,) = topic.partition_responses if isinstance(response, ProduceResponse) else topic.partitions
    leader = one.current_leader
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
    return one.error_code, ([(leader.leader_id, leader.leader_epoch)], nodes)


NO_HINT = ([(-1, -1)], [])


@pytest.fixture
async def changed(tmp_path: Path) -> AsyncIterator[Replicas]:
    """Brokers 1 and 2 have a replica, 3 has none. Broker 1 was the leader, 2 is the leader now."""
    racks = {number: {"broker.rack": f"rack-{number}"} for number in (1, 2, 3)}
    async with Replicas(tmp_path, 3, each=racks, **QUICK) as replicas:
        replicas.create(1, 2)
        replicas.change(leader=2)
        yield replicas


async def test_fetch_from_non_leader_returns_current_leader(changed: Replicas) -> None:
    for number in (1, 3):  # whether it has a replica or not
        assert reported(await fetched(changed, number, 10)) == (NOT_LEADER, NO_HINT)
    assert reported(await fetched(changed, 3, 15)) == (NOT_LEADER, NO_HINT), "from version 16 on (KIP-951)"
    for version in (16, 17):
        assert reported(await fetched(changed, 3, version)) == (NOT_LEADER, led(changed, 2))
        assert reported(await fetched(changed, 1, version)) == (0, NO_HINT), "consumers read from followers"
        beyond = await fetched(changed, 1, version, offset=changed.hosted(1).log_end_offset + 1)
        assert reported(beyond) == (NOT_LEADER, led(changed, 2))
        fenced = await fetched(changed, 1, version, leader_epoch=0)
        assert reported(fenced) == (ErrorCode.FENCED_LEADER_EPOCH, led(changed, 2))


async def test_produce_to_non_leader_returns_current_leader(changed: Replicas) -> None:
    for number in (1, 3):
        assert reported(await changed.send(number, 9)) == (NOT_LEADER, NO_HINT), "from version 10 on (KIP-951)"
        for version in (10, 12, 13):
            assert reported(await changed.send(number, version)) == (NOT_LEADER, led(changed, 2))
    assert reported(await changed.send(2, 13)) == (0, NO_HINT), "who asks the right one is told nothing"


async def test_produce_waiting_during_a_leader_change_returns_the_next_leader(changed: Replicas) -> None:
    changed.server(1).replicas.replication().close()
    end = changed.hosted(2).log_end_offset
    waiting = asyncio.create_task(changed.send(2, 13, acks=-1))
    await eventually(lambda: changed.hosted(2).log_end_offset > end)
    changed.change(leader=1)
    assert reported(await waiting) == (NOT_LEADER, led(changed, 1))


async def test_leaderless_partition_returns_no_node_endpoint(changed: Replicas) -> None:
    changed.change(leader=-1)
    now = changed.partition(1)
    for response in (await changed.send(1, 13), await fetched(changed, 3, 17)):
        assert reported(response) == (NOT_LEADER, ([(-1, now.leader_epoch)], []))


async def ends(replicas: Replicas, version: int, timestamp: int = -1) -> tuple[int, int, int]:
    """Returns broker 1's response to a consumer's ListOffsets: (error, offset, leader epoch)."""
    asked = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, timestamp)])
    response = await replicas.ask(1, ListOffsetsRequest(replica_id=-1, topics=[asked]), version)
    one = response.topics[0].partitions[0]
    return one.error_code, one.offset, one.leader_epoch


async def test_new_leader_returns_no_end_before_its_high_watermark(tmp_path: Path) -> None:
    """KIP-207: its high watermark may be below an offset that the previous leader returned to consumers."""
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"a", timestamp=TIME_MS - 1)
        await replicas.equal(1, 2)
        replicas.server(2).replicas.replication().close()
        replicas.produce(1, b"b", timestamp=TIME_MS)
        assert await ends(replicas, 7) == (0, 1, 0), "an old leader knows"
        replicas.change(leader=2)  # and back at once, so that no record is truncated
        replicas.change(leader=1)
        assert replicas.hosted(1).role.leader_epoch_start_offset == 2 > replicas.hosted(1).high_watermark
        rejected = (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
        for timestamp in (LATEST, TIME_MS, TIME_MS + 1):
            assert await ends(replicas, 4, timestamp) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1)
            assert await ends(replicas, 5, timestamp) == await ends(replicas, 7, timestamp) == rejected
        assert await ends(replicas, 7, MAX_TIMESTAMP) == rejected
        assert await ends(replicas, 4, EARLIEST) == await ends(replicas, 7, EARLIEST) == (0, 0, 0)
        replicas.follow_again(2)
        await eventually(lambda: replicas.hosted(1).high_watermark == 2)
        assert await ends(replicas, 4) == await ends(replicas, 5) == await ends(replicas, 7) == (0, 2, 2)
        assert await ends(replicas, 7, TIME_MS) == (0, 1, 0)


async def test_delete_records_waits_for_all_replicas(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)
        for value in (b"a", b"b", b"c"):
            replicas.produce(1, value)
        await replicas.equal(1, 2)
        asked = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])
        response = await replicas.ask(1, DeleteRecordsRequest([asked], 30_000), 2)
        (result,) = response.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (0, 2)
        assert replicas.hosted(2).log_start_offset == 2
        replicas.server(2).replicas.replication().close()
        asked = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 3)])
        response = await replicas.ask(1, DeleteRecordsRequest([asked], 200), 2)
        (result,) = response.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 2)


async def test_a_partition_that_cannot_go_on_does_not_hold_up_its_fetcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = FollowedPartition.take
    failures = [RuntimeError("a bug"), RuntimeError("and again")]

    def take(self: FollowedPartition, data: PartitionData, now_ms: int) -> int:
        if failures and data.records:
            raise failures.pop()
        return taken(self, data, now_ms)

    monkeypatch.setattr(FollowedPartition, "take", take)
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"v")
        await replicas.equal(1, 2)
        assert failures == []


async def test_a_damaged_batch_is_not_written_and_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = FollowedPartition.take
    damaged: list[int] = []

    def take(self: FollowedPartition, data: PartitionData, now_ms: int) -> int:
        if data.records and not damaged:
            records = bytearray(data.records)
            records[-1] ^= 1
            data.records = records
            damaged.append(taken(self, data, now_ms))
            return damaged[0]
        return taken(self, data, now_ms)

    monkeypatch.setattr(FollowedPartition, "take", take)
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2)
        replicas.produce(1, b"v")
        await replicas.equal(1, 2)
        assert damaged == [ErrorCode.CORRUPT_MESSAGE]


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_follower_is_throttled_until_in_isr(tmp_path: Path, side: str) -> None:
    async with Replicas(tmp_path, 3, **QUICK, **SHORT_WINDOW) as replicas:
        replicas.server(3).replicas.replication().close()
        replicas.create(1, 2, 3, isr=(1, 2), **{f"{side}_replication_throttled_replicas": "*"})
        replicas.throttle(f"{side}.replication.throttled.rate", "1000")
        for _ in range(4):
            replicas.produce(1, b"x" * 1_000_000)
        await eventually(lambda: replicas.hosted(1).high_watermark == 4)
        replicas.follow_again(3)
        await eventually(lambda: replicas.hosted(3).log_end_offset > 0, "some comes through")
        assert replicas.hosted(1).role.isr == (1, 2)
        assert replicas.hosted(3).log_end_offset < 4
        replicas.produce(1, b"y")
        await eventually(lambda: replicas.hosted(1).high_watermark == 5, "who is in sync does not wait")
        assert replicas.hosted(3).log_end_offset < 4
        replicas.throttle(f"{side}.replication.throttled.rate", None)
        await replicas.equal(1, 2, 3)
