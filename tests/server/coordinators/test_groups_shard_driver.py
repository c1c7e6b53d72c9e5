"""The driver of a coordinator shard: one batch per turn, replies after the high watermark, loading, dropping."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from odradek.coordinator.groups.group_records import offset_record
from odradek.coordinator.groups.shard import GroupShard
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_offsets import OffsetCommitValue
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message
from odradek.server.partitions.append_rules import AppendRules
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.log import Log

from tests.coordinator.harness.kinds import encode_record
from tests.server.harness.shard_driver import LOCAL, OTHER, Harness, Somebody, eventually, now_ms


def commit(offset: int, partition: int = 0, group_id: str = "g", metadata: str = "") -> OffsetCommitRequest:
    reported = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    return OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name="t", partitions=[reported])])


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


@pytest.fixture
async def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path / "__consumer_offsets-0")


async def test_commits_of_one_turn_are_one_batch(harness: Harness) -> None:
    responses = await asyncio.gather(*[harness.submit(commit(i, partition=i)) for i in range(100)])
    assert {error_of(response) for response in responses} == {ErrorCode.NONE}
    assert harness.batches() == 1
    assert await harness.fetched() == {("t", i): i for i in range(100)}


async def test_records_beyond_max_message_bytes_become_several_batches(harness: Harness) -> None:
    harness.partition.rules = AppendRules(None, None, False, 1 << 62, 1 << 62, True, 1, 1_000, 1 << 30, 1 << 30)
    await asyncio.gather(*[harness.submit(commit(i, partition=i, metadata="m" * 300)) for i in range(10)])
    assert harness.batches() > 3
    assert await harness.fetched() == {("t", i): i for i in range(10)}


async def test_a_read_without_records_before_it_is_answered_at_once(harness: Harness) -> None:
    response = harness.submit(HeartbeatRequest(group_id="g", generation_id=1, member_id="x"))
    assert response.done()
    assert response.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_read_waits_for_what_it_could_see(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "p-0")
    harness.partition = harness.open(isr=(LOCAL, OTHER))
    harness.driver = harness.drive()
    harness.partition.role.follower_fetched(OTHER, 0, now_ms())
    committed, read = harness.submit(commit(5)), asyncio.ensure_future(harness.fetched())
    await eventually(lambda: harness.partition.log_end_offset == 1)
    assert not committed.done() and not read.done()
    harness.partition.role.follower_fetched(OTHER, 1, now_ms())
    harness.partition._committed(0)
    assert error_of(await committed) is ErrorCode.NONE
    assert await read == {("t", 0): 5}


async def test_a_reply_waits_for_replicas_no_longer_than_offsets_commit_timeout_ms(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "p-0")
    harness.partition = harness.open(isr=(LOCAL, OTHER))
    harness.driver = harness.drive(commit_timeout_ms=200)
    harness.partition.role.follower_fetched(OTHER, 0, now_ms())
    assert error_of(await harness.ask(commit(5))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The replica was only slow: the decision stands, and its reply is not sent twice.
    harness.partition.role.follower_fetched(OTHER, 1, now_ms())
    harness.partition._committed(0)
    assert await harness.fetched() == {("t", 0): 5}


async def test_groups_and_offsets_are_loaded_from_the_log(harness: Harness) -> None:
    member = await harness.joined()
    own = commit(7)
    own.generation_id_or_member_epoch, own.member_id = member.generation_id, member.member_id
    await harness.ask(own)
    await asyncio.gather(*[harness.submit(commit(i, partition=i % 7, group_id="other")) for i in range(2_000)])
    harness.driver.resign()
    harness.partition.log.close(now_ms(), clean=False)
    harness.partition = harness.open()
    harness.driver = harness.drive()
    heartbeat = HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
    rejected = await harness.ask(commit(1))
    assert error_of(rejected) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await harness.ask(heartbeat)).error_code == ErrorCode.NONE, "no member is sent away while its group loads"
    await eventually(lambda: harness.driver.shard is not None)
    assert await harness.fetched() == {("t", 0): 7}
    assert await harness.fetched("other") == {("t", i): 1_999 - (1_999 - i) % 7 for i in range(7)}
    assert (await harness.ask(heartbeat)).error_code == ErrorCode.NONE
    heartbeat.generation_id += 1
    assert (await harness.ask(heartbeat)).error_code == ErrorCode.ILLEGAL_GENERATION


async def test_a_session_ends_without_anybody_asking(harness: Harness) -> None:
    await harness.joined(session_timeout_ms=1000)
    end = harness.partition.log_end_offset
    await eventually(lambda: harness.partition.log_end_offset > end)
    assert harness.driver.shard is not None
    assert not harness.driver.shard.state.groups["g"].members  # type: ignore[attr-defined]


async def test_heartbeats_set_no_timers_of_the_loop(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    member = await harness.joined()
    loop, timers = asyncio.get_running_loop(), []
    monkeypatch.setattr(loop, "call_later", lambda *what: timers.append(what))
    for _ in range(100):
        response = harness.submit(
            HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
        )
        assert response.result().error_code == ErrorCode.NONE
    monkeypatch.undo()
    assert not timers


async def test_resigned_shard_answers_all_pending_requests(harness: Harness) -> None:
    member = await harness.joined()
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    newcomer = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=9_000,
        rebalance_timeout_ms=9_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    waiting = harness.submit(newcomer, version=3)
    undecided = harness.submit(commit(1, group_id="h"))
    harness.driver.resign()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert error_of(await undecided) is ErrorCode.NOT_COORDINATOR
    assert error_of(await harness.ask(commit(1, group_id="h"))) is ErrorCode.NOT_COORDINATOR
    assert member.generation_id == 1
    end = harness.partition.log_end_offset
    await asyncio.sleep(0)
    assert harness.partition.log_end_offset == end, "what was not appended in time is not appended later"


async def test_a_shard_that_cannot_write_is_dropped_and_loaded_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert error_of(await harness.ask(commit(5))) is ErrorCode.NONE

    def full(*what: object) -> None:
        raise LogDirectoryFailure(harness.path, "appending", OSError(28, "No space left on device"))

    monkeypatch.setattr(Log, "append", full)
    responses = await asyncio.gather(harness.submit(commit(6)), harness.submit(commit(7, partition=1)))
    assert [error_of(response) for response in responses] == [ErrorCode.NOT_COORDINATOR] * 2
    assert harness.failures
    assert harness.driver.shard is None, "it has gone ahead of its log"
    monkeypatch.undo()
    await eventually(lambda: harness.driver.shard is not None)
    assert await harness.fetched() == {("t", 0): 5}


async def test_a_bug_in_the_shard_drops_it_too(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert error_of(await harness.ask(commit(5))) is ErrorCode.NONE
    handle = GroupShard.handle

    def broken(shard: GroupShard, message: Any, now: int) -> None:
        handle(shard, message, now)
        raise ZeroDivisionError

    monkeypatch.setattr(GroupShard, "handle", broken)
    assert error_of(await harness.ask(commit(6))) is ErrorCode.UNKNOWN_SERVER_ERROR
    monkeypatch.undo()
    await eventually(lambda: harness.driver.shard is not None)
    assert await harness.fetched() == {("t", 0): 5}


async def test_foreign_append_to_log_reloads_shard(harness: Harness) -> None:
    assert error_of(await harness.ask(commit(5))) is ErrorCode.NONE
    key, value = encode_record(
        offset_record("g", "t", 1, OffsetCommitValue(offset=6, metadata="", commit_timestamp=1, topic_id=bytes(16)))
    )
    harness.partition.append_own(encode_batch([Record(0, 1, key, value)]), now_ms())
    assert error_of(await harness.ask(commit(7, partition=2))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await eventually(lambda: harness.driver.shard is not None)
    assert await harness.fetched() == {("t", 0): 5, ("t", 1): 6, ("t", 2): 7}


async def test_a_reply_that_fails_does_not_keep_the_others_waiting(harness: Harness) -> None:
    said: list[Message] = []

    def fails_once(response: Message) -> None:
        said.append(response)
        if len(said) == 1:
            raise ValueError("cannot be encoded")

    harness.driver.submit(commit(5), 9, Somebody(), fails_once)
    assert error_of(await harness.ask(commit(6, partition=1))) is ErrorCode.NONE
    assert [error_of(response) for response in said] == [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR]
