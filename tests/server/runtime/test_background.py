"""Background work: failures are logged, counted, shown in health, and tried again; snapshots of any metadata are written."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer, TopicPartition
from odradek.metadata.delegation_tokens import MAX_TOKEN_BYTES, MAX_TOKEN_BYTES_PER_OWNER, token_bytes
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.snapshot import image_records
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal import cluster_metadata as records
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.quota_entities import EntityData
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.token_principals import TokenPrincipal
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.schema import Message
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.delegation_tokens import RemoveExpiredTokensRequest
from odradek.replication.controller.state import Caller
from odradek.server.controller import metadata_snapshots, snapshotting
from odradek.server.controller.metadata_batches import MAX_BATCH_BYTES, RECORDS_PER_BATCH, encode_in_batches
from odradek.server.controller.metadata_snapshots import list_snapshots, read_snapshot, write_image_snapshot
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.coordinators.group_shard_driver import GroupShardDriver
from odradek.server.endpoints import create_delegation_token as handler
from odradek.server.replicas.maintenance import LogMaintenance
from odradek.server.runtime.background_tasks import BackgroundTasks
from odradek.server.runtime.sliced_work import run_to_completion

from tests.replication.controller_transcript import Transcript
from tests.server.harness.handler_services import HandlerServices
from tests.server.harness.http import http, scrape
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.remote_broker import until

LONG_NAME = "c" * 20_000


def quotas(count: int) -> list[Message]:
    entities = [[records.QuotaRecordEntity("client-id", f"{number}-{LONG_NAME}")] for number in range(count)]
    return [records.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0) for entity in entities]


def tokens(count: int, renewers: int) -> list[Message]:
    names = [f"User:{number:0200d}" for number in range(renewers)]
    return [
        records.DelegationTokenRecord(owner="User:a", requester="User:a", renewers=names, token_id=f"token-{number}")
        for number in range(count)
    ]


# ---- snapshots by bytes


@pytest.mark.parametrize("made", [quotas(1_600), tokens(1_600, 100)], ids=["quotas", "tokens"])
def test_snapshot_of_large_records_is_split_by_bytes(tmp_path: Path, made: list[Message]) -> None:
    delta = MetadataDelta()
    for record in [records.FeatureLevelRecord("metadata.version", 30), *made]:
        delta.replay(record)
    image = delta.apply(9, 1, 5)
    snapshot = write_image_snapshot(tmp_path, image, QuorumVoters(), 5)
    path = tmp_path / snapshot.file_name
    sizes = [len(batch) for batch in metadata_snapshots.iter_batches(path)]
    assert len(sizes) > 3 + 2
    assert max(sizes) <= MAX_BATCH_BYTES
    headers = [header for batch in metadata_snapshots.iter_batches(path) for _, header in iter_headers(batch)]
    assert [one.base_offset for one in headers[1:]] == [one.next_offset for one in headers[:-1]]
    loaded = run_to_completion(read_snapshot(path))
    assert list(image_records(loaded.delta.apply(9, 1, 5))) == list(image_records(image))


def test_batches_have_a_limit_of_records_and_a_larger_record_has_its_own() -> None:
    small: list[Message] = [records.NoOpRecord() for _ in range(RECORDS_PER_BATCH + 1)]
    large = records.DelegationTokenRecord(
        owner="User:a", requester="User:a", renewers=["r" * 30_000] * 300, token_id="t"
    )
    batches = list(encode_in_batches([*small, large, *small[:1]], 7, 1, 0, 30))
    counts = [header.record_count for batch in batches for _, header in iter_headers(batch)]
    assert counts == [RECORDS_PER_BATCH, 1, 1, 1]
    assert list(encode_in_batches([], 7, 1, 0, 30)) == []


def quota_request(first: int, count: int, name: str = LONG_NAME) -> AlterClientQuotasRequest:
    entries = [
        EntryDataRequest([EntityData("client-id", f"{number}-{name}")], [OpData("producer_byte_rate", 1.0, False)])
        for number in range(first, first + count)
    ]
    return AlterClientQuotasRequest(entries, False)


async def decided(server: Any, request: Message, version: int) -> Any:
    responses: list[Any] = []
    server.controller.driver.submit(request, version, responses.append)
    await until(lambda: responses)
    return responses[0]


@pytest.mark.usefixtures("sockets")
async def test_snapshots_go_on_whatever_quotas_an_open_broker_is_given(tmp_path: Path) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": 1_000_000, "odradek.metrics.port": 0}
    async with odradek.Broker(data_dir=tmp_path, config=config) as broker:
        server = broker.server
        for part in range(6):
            response = await decided(server, quota_request(part * 200, 200), 1)
            assert {entry.error_code for entry in response.entries} == {ErrorCode.NONE}
        end = server.controller.driver.quorum_log.end_offset
        await until(lambda: server.controller.driver.quorum_log.snapshots[-1:] and not server.node.background.failing)
        await decided(server, quota_request(1_200, 60), 1)
        await until(lambda: server.controller.driver.quorum_log.snapshots[-1].end_offset >= end)
        assert not server.node.background.failures
    async with odradek.Broker(data_dir=tmp_path, config=config) as broker:
        assert len(broker.server.node.metadata.image.client_quotas) == 1_260


@pytest.mark.usefixtures("sockets")
async def test_decision_that_does_not_fit_in_a_batch_is_refused_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with odradek.Broker() as broker:
        before = broker.server.controller.driver.quorum_log.end_offset
        response = await decided(broker.server, quota_request(0, 420), 1)
        assert {entry.error_code for entry in response.entries} == {ErrorCode.POLICY_VIOLATION}
        assert "the limit is 8388608 bytes" in response.entries[0].error_message
        assert broker.server.controller.driver.quorum_log.end_offset == before
        assert broker.server.controller.driver.controller.next_offset == before
        after = await decided(broker.server, CreateTopicsRequest([CreatableTopic("a", 1, 1)], 10_000), 7)
        assert after.topics[0].error_code == ErrorCode.NONE
    assert "a bug" not in caplog.text


# ---- failures


async def readiness(broker: odradek.Broker) -> tuple[str, dict[str, Any]]:
    status, _, body = await http(broker, "GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
    return status.split()[1], json.loads(body)


@pytest.mark.usefixtures("sockets")
async def test_failed_snapshot_is_logged_counted_in_health_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[float] = []
    write = write_image_snapshot

    def fail(*arguments: Any) -> Any:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise AssertionError("a batch of 20934207 bytes")
        return write(*arguments)

    monkeypatch.setattr(snapshotting, "write_image_snapshot", fail)
    monkeypatch.setattr(snapshotting, "RETRY_MS", 300)
    config = {"metadata.log.max.record.bytes.between.snapshots": 2_000, "odradek.metrics.port": 0}
    async with odradek.Broker(data_dir=tmp_path, config=config) as broker:
        background, name = broker.server.node.background, snapshotting.TASK
        await decided(broker.server, CreateTopicsRequest([CreatableTopic("a", 90, 1)], 10_000), 7)
        await until(lambda: background.failing)
        status, found = await readiness(broker)
        assert (status, found["failing"]) == ("200", {name: "AssertionError: a batch of 20934207 bytes"})
        metrics = await scrape(broker)
        assert metrics[f'odradek_background_failures_total{{task="{name}"}}'] >= 1
        assert metrics[f'odradek_background_failing{{task="{name}"}}'] == 1
        await until(lambda: list_snapshots(tmp_path / "__cluster_metadata-0"))
        await until(lambda: not background.failing)
        assert background.failures == {name: 2}
        assert (await readiness(broker))[1]["failing"] == {}
    assert all(after - before > 0.25 for before, after in itertools.pairwise(attempts[:3])), "it waits between attempts"
    assert "metadata snapshot failed and is tried again (failure 1)" in caplog.text
    assert "metadata snapshot works again, after 2 failures" in caplog.text
    assert not list((tmp_path / "__cluster_metadata-0").glob("*.part"))


@pytest.mark.usefixtures("sockets")
async def test_failed_maintenance_is_counted_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    async def fail(self: LogMaintenance) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise LookupError("injected")

    fail.__name__ = "delete_old_segments"
    monkeypatch.setattr(LogMaintenance, "delete_old_segments", fail)
    async with odradek.Broker(config={"log.retention.check.interval.ms": 50}) as broker:
        background = broker.server.node.background
        await until(lambda: len(calls) >= 2 and not background.failing)
        assert background.failures == {"delete old segments": 1}


@pytest.mark.usefixtures("sockets")
async def test_shard_that_cannot_be_loaded_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with odradek.Broker(data_dir=tmp_path, config={"offsets.topic.num.partitions": 1}) as broker:
        await decided(broker.server, CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000), 7)
        await commit(broker)
    feed, failures = GroupShardDriver._feed, [OSError("injected"), LookupError("injected")]

    async def fail(self: Any, loader: Any, offset: int) -> int:
        if failures:
            raise failures.pop()
        return await feed(self, loader, offset)

    monkeypatch.setattr(GroupShardDriver, "_feed", fail)
    async with odradek.Broker(data_dir=tmp_path, config={"offsets.topic.num.partitions": 1}) as broker:
        background = broker.server.node.background
        await until(lambda: not failures and not background.failing)
        assert background.failures == {"loading of __consumer_offsets-0": 2}


async def commit(broker: odradek.Broker) -> None:
    """Has the coordinator store an offset."""

    def run() -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
        consumer.close()

    await asyncio.to_thread(run)


def test_repeated_failures_are_logged_by_powers_of_two(caplog: pytest.LogCaptureFixture) -> None:
    background = BackgroundTasks()
    with caplog.at_level(logging.WARNING, "odradek.background"):
        for _ in range(9):
            background.failed("work", LookupError("injected"))
        background.succeeded("work")
        background.succeeded("work")
    assert [record.getMessage()[-2] for record in caplog.records[:-1]] == ["1", "2", "4", "8"]
    assert caplog.records[-1].getMessage() == "work works again, after 9 failures"
    assert not background.failing


# ---- delegation tokens


def token_request(renewers: Sequence[str]) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        renewers=[TokenPrincipal("User", name) for name in renewers], max_lifetime_ms=-1
    )


@pytest.fixture
def controller() -> Controller:
    transcript = Transcript()
    transcript.static["delegation.token.secret.key"] = "a-secret"
    transcript.run("> broker 1\n")
    return transcript.controller


def ask(controller: Controller, request: Message, caller: str = "User:alice", now_ms: int = 1) -> Any:
    result = controller.handle(request, 3, caller=Caller(caller, now_ms))
    controller.replay(result.records, 1, now_ms)
    return result.response


def test_token_over_the_limit_is_refused(controller: Controller) -> None:
    names = ["r" * 1_000] * (MAX_TOKEN_BYTES // 1_000)
    assert ask(controller, token_request(names)).error_code == ErrorCode.POLICY_VIOLATION
    assert ask(controller, token_request(names[: len(names) // 2])).error_code == ErrorCode.NONE


def test_tokens_of_an_owner_are_bounded_and_expired_ones_make_room(controller: Controller) -> None:
    names = [f"{number:0200d}" for number in range(1_000)]
    responses = [ask(controller, token_request(names)) for _ in range(100)]
    made = [one for one in responses if one.error_code == ErrorCode.NONE]
    size = token_bytes(["User:alice"] * 2 + [f"User:{name}" for name in names])
    assert len(made) == MAX_TOKEN_BYTES_PER_OWNER // size < 100
    assert {one.error_code for one in responses[len(made) :]} == {ErrorCode.POLICY_VIOLATION}
    assert ask(controller, token_request(names), "User:bob").error_code == ErrorCode.NONE, "another owner has room"
    assert ask(controller, RenewDelegationTokenRequest(hmac=made[0].hmac, renew_period_ms=-1)).error_code == 0
    assert ask(controller, token_request(names)).error_code == ErrorCode.POLICY_VIOLATION
    later_ms = made[0].max_timestamp_ms + 1
    ask(controller, RemoveExpiredTokensRequest(), now_ms=later_ms)
    assert ask(controller, token_request(names), now_ms=later_ms).error_code == ErrorCode.NONE
    # A controller that takes over counts the tokens of the image.
    for _ in range(100):
        ask(controller, token_request(names), now_ms=later_ms)
    controller.load(controller.image, controller.next_offset, 0)
    assert ask(controller, token_request(names), now_ms=later_ms).error_code == ErrorCode.POLICY_VIOLATION


def test_broker_refuses_a_token_of_over_8_mb_before_the_controller_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    call = NotedCalls(NotedConnection()).call(token_request(["r" * 30_000] * 300), version=3)
    services: Any = HandlerServices()  # without a controller
    response = handler.handle(services, call)
    assert response is not None
    assert response.error_code == ErrorCode.POLICY_VIOLATION
