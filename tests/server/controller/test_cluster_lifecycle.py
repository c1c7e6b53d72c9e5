"""A broker and a controller on another node, over real sockets: registration, heartbeats, death, controlled shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import odradek
import pytest
from odradek.client.probes import is_gone, is_refused
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.schema import Message
from odradek.server.broker import BrokerServer
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.broker_lifecycle import LifecycleState

from tests.server.harness.remote_broker import RemoteBroker, first_node, until

pytestmark = pytest.mark.usefixtures("sockets")

FIRST, SECOND = 1, 7


@pytest.fixture
async def first() -> AsyncIterator[BrokerServer]:
    async with first_node() as broker:
        yield broker.server


@pytest.fixture
async def second(first: BrokerServer) -> AsyncIterator[RemoteBroker]:
    broker = await RemoteBroker.start(first, SECOND)
    await broker.join()
    yield broker
    await broker.die()


async def asked(broker: RemoteBroker, request: Message, version: int) -> Any:
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    broker.forwarding().submit(request, version, response.set_result, principal="User:alice")
    return await asyncio.wait_for(response, 30)


def topic_on(*replicas: int) -> CreateTopicsRequest:
    topic = CreatableTopic("a", -1, -1, assignments=[CreatableReplicaAssignment(0, list(replicas))])
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def leader(first: BrokerServer) -> int:
    found = first.node.metadata.image.partition("a", 0)
    assert found is not None
    return found.leader


def counted(owner: object, name: str, calls: list[str]) -> None:
    """Adds the method's name to `calls` before each call of the method."""
    method = getattr(owner, name)

    def note(*words: Any, **named: Any) -> Any:
        calls.append(name)
        return method(*words, **named)

    setattr(owner, name, note)


async def test_a_broker_registers_and_is_unfenced_when_it_is_ready(first: BrokerServer) -> None:
    broker = await RemoteBroker.start(first, SECOND)
    await broker.lifecycle.register()
    assert broker.registered.fenced and broker.registered.epoch == broker.lifecycle.broker_epoch
    await broker.lifecycle.run()
    assert not broker.registered.fenced and broker.lifecycle.state is LifecycleState.RUNNING
    assert [tuple(e)[1:3] for e in broker.registered.listeners.values()] == [broker.server.sockets[0].getsockname()]
    await broker.die()


async def test_forwarded_request_is_decided_by_controller(first: BrokerServer, second: RemoteBroker) -> None:
    (made,) = (await asked(second, topic_on(SECOND, FIRST), 7)).topics
    assert made.error_code == ErrorCode.NONE and leader(first) == SECOND
    (again,) = (await asked(second, topic_on(SECOND, FIRST), 7)).topics
    assert (again.error_code, again.error_message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")


async def test_forwarded_empty_request_gets_empty_response(second: RemoteBroker) -> None:
    """The broker does not mistake a response without results for an error, and does not send the request again."""
    assert (await asked(second, CreateTopicsRequest([], timeout_ms=10_000), 7)).topics == []
    assert (await asked(second, DeleteTopicsRequest(topics=[], timeout_ms=10_000), 6)).responses == []
    assert (await asked(second, CreatePartitionsRequest([], timeout_ms=10_000), 3)).results == []


async def test_brokers_own_request_needs_no_envelope(second: RemoteBroker) -> None:
    request = AllocateProducerIdsRequest(SECOND, second.lifecycle.broker_epoch)
    block = await asked(second, request, 0)
    assert (block.error_code, block.producer_id_len) == (ErrorCode.NONE, 1000)
    stale = await asked(second, AllocateProducerIdsRequest(SECOND, 0), 0)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request2 = AlterPartitionRequest(broker_id=SECOND, broker_epoch=second.lifecycle.broker_epoch)
    second.forwarding().send_to_controller(request2, response.set_result, timeout_ms=10_000)
    assert (await response).error_code == ErrorCode.NONE


async def test_a_request_waits_until_there_is_a_controller(second: RemoteBroker) -> None:
    endpoint, second.controller.leader_endpoint = second.controller.leader_endpoint, None
    tries: list[str] = []
    counted(second.forwarding(), "_try_later", tries)
    waiting = asyncio.create_task(asked(second, topic_on(FIRST), 7))
    await until(lambda: len(tries) >= 2)
    assert not waiting.done()
    second.controller.leader_endpoint = endpoint
    assert (await waiting).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("host", ["/10.1.2.3", "/2001:db8:0:0:0:0:0:1"])
async def test_the_active_controller_gets_principal_and_host_of_a_forwarded_client(
    first: BrokerServer, second: RemoteBroker, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[dict[str, Any]] = []
    decide = first.controller.driver.decide

    def noting(request: Any, *others: Any, **client: Any) -> None:
        if isinstance(request, CreateTopicsRequest):
            clients.append(client)
        decide(request, *others, **client)

    monkeypatch.setattr(first.controller.driver, "decide", noting)
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    client = {"principal": "User:alice", "client_host": host, "client_id": "her-client"}
    second.forwarding().submit(topic_on(FIRST), 7, response.set_result, **client)
    assert (await response).topics[0].error_code == ErrorCode.NONE
    assert clients == [client | {"is_token_authenticated": False}]


async def test_an_envelope_holds_only_what_may_be_handed_on(second: RemoteBroker) -> None:
    for data in (b"", b"\x00", b"\x00\x00\x00\x03" + bytes(20), b"\x00\x13\x00\x63" + bytes(20), b"\x00\x13\x00\x07"):
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = EnvelopeRequest(data, None, bytes(4))
        second.forwarding().send_to_controller(request, response.set_result, timeout_ms=10_000)
        assert (await response).error_code == ErrorCode.INVALID_REQUEST


async def test_a_question_about_the_quorum_is_answered_in_an_envelope(
    first: BrokerServer, second: RemoteBroker
) -> None:
    """Apache Kafka's brokers send such requests to the controller in an envelope."""
    request = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    (partition,) = (await asked(second, request, 2)).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (0, first.node_id)
    unknown = await asked(second, RemoveRaftVoterRequest(first.node.identity.cluster_id, 99, bytes(15) + b"\1"), 0)
    assert unknown.error_code == ErrorCode.VOTER_NOT_FOUND


async def test_the_leaders_of_a_broker_that_died_move_at_once(first: BrokerServer, second: RemoteBroker) -> None:
    await asked(second, topic_on(SECOND, FIRST), 7)
    assert leader(first) == SECOND
    await second.die()
    await until(lambda: leader(first) == FIRST)
    assert second.registered.fenced
    assert first.controller.sessions is not None
    assert (first.controller.sessions.rejected_brokers, first.controller.sessions.expired_sessions) == (1, 0)


async def test_a_broker_whose_listener_accepts_is_left_to_its_session(
    first: BrokerServer, second: RemoteBroker
) -> None:
    await asked(second, topic_on(SECOND, FIRST), 7)
    assert first.controller.sessions is not None
    probed = first.controller.sessions._connections
    second.lifecycle._end()
    second.peers().close()  # its connections end, but its listener accepts
    await until(lambda: SECOND not in probed.values() and not first.controller.sessions._probes)  # type: ignore[union-attr]
    assert not second.registered.fenced and leader(first) == SECOND


async def test_a_broker_that_is_silent_is_fenced_when_its_session_is_over() -> None:
    async with first_node(**{"broker.session.timeout.ms": 2000}) as broker:
        second = await RemoteBroker.start(broker.server, SECOND)
        await second.join()
        began, heartbeats = time.monotonic(), list[str]()
        counted(second.lifecycle, "_answered", heartbeats)
        await until(lambda: time.monotonic() - began > 2.5 and len(heartbeats) >= 10)
        assert not second.registered.fenced, "heartbeats keep it"
        await second.fall_silent()
        await until(lambda: second.registered.fenced)
        assert broker.server.controller.sessions is not None and broker.server.controller.sessions.expired_sessions == 1
        second.lifecycle.state = LifecycleState.STARTING
        second.lifecycle.send_next()
        await until(lambda: not second.registered.fenced)
        await second.die()


async def test_a_broker_that_leaves_has_nothing_any_more_when_it_stops(
    first: BrokerServer, second: RemoteBroker
) -> None:
    await asked(second, topic_on(SECOND, FIRST), 7)
    await second.lifecycle.leave()
    assert second.lifecycle.state is LifecycleState.SHUTTING_DOWN
    await until(lambda: leader(first) == FIRST and second.registered.fenced)


@pytest.fixture
async def impatient() -> AsyncIterator[tuple[BrokerServer, RemoteBroker]]:
    """A first node and a broker that waits two seconds for a controller when it stops."""
    keys = {"controlled.shutdown.max.retries": 2, "controlled.shutdown.retry.backoff.ms": 1000}
    async with first_node(**keys, **{"broker.session.timeout.ms": 500}) as first:
        broker = await RemoteBroker.start(first.server, SECOND)
        await broker.join()
        yield first.server, broker
        await broker.die()


async def test_controlled_shutdown_without_a_controller_ends_after_its_retries_and_says_so(
    impatient: tuple[BrokerServer, RemoteBroker], caplog: pytest.LogCaptureFixture
) -> None:
    _, second = impatient
    second.controller.leader_endpoint = None
    began = time.monotonic()
    await second.lifecycle.leave()
    assert 2 <= time.monotonic() - began < 4
    said = [record.message for record in caplog.records if record.name == "odradek.lifecycle"]
    assert [line for line in said if "retry 1 of 2 (controlled.shutdown.max.retries)" in line], said
    assert "controlled.shutdown.max.retries=2, controlled.shutdown.retry.backoff.ms=1000" in said[-1], said


async def test_controller_that_responds_late_still_gets_the_leaders_moved(
    first: BrokerServer, second: RemoteBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quorum under load may have no active controller for some seconds; its processes run."""
    monkeypatch.setattr("odradek.server.controller.broker_lifecycle.PROBE_CONTROLLERS_MS", 100)
    await asked(second, topic_on(SECOND, FIRST), 7)
    endpoint, second.controller.leader_endpoint = second.controller.leader_endpoint, None
    probes: list[str] = []
    counted(second.lifecycle, "_probe_controllers", probes)
    leaving = asyncio.create_task(second.lifecycle.leave())
    await until(lambda: len(probes) >= 2)
    assert not leaving.done() and leader(first) == SECOND
    second.controller.leader_endpoint = endpoint
    await leaving
    await until(lambda: leader(first) == FIRST and second.registered.fenced)


async def test_broker_stops_at_once_when_most_controllers_have_ended(
    second: RemoteBroker, caplog: pytest.LogCaptureFixture
) -> None:
    ended = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    gone = Endpoint("CONTROLLER", *ended.sockets[0].getsockname()[:2])
    ended.close()
    await ended.wait_closed()
    second.controller.voter_endpoints = lambda: {SECOND: gone, 8: gone, 9: gone}
    second.controller.leader_endpoint = None
    began = time.monotonic()
    await second.lifecycle.leave()
    assert time.monotonic() - began < 12
    assert "2 of 3 controllers have stopped, so there is no quorum" in caplog.text


async def test_a_second_process_of_one_id_waits_for_the_first_and_comes_in_when_that_died(
    first: BrokerServer, second: RemoteBroker
) -> None:
    other = await RemoteBroker.start(first, SECOND)
    error_results: list[str] = []
    counted(other.lifecycle, "_heartbeat_failed", error_results)
    joined = asyncio.create_task(other.join())
    await until(lambda: len(error_results) >= 2)
    assert not joined.done() and second.registered.epoch == second.lifecycle.broker_epoch
    await second.die()
    await joined
    assert other.registered.epoch == other.lifecycle.broker_epoch > second.lifecycle.broker_epoch
    await other.die()


async def test_a_restarted_broker_says_once_that_its_former_session_lives_and_registers_when_that_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Apache Kafka's controller keeps a session until it expires, as here that of a broker whose listener accepts."""
    async with first_node(**{"broker.session.timeout.ms": 4000}) as broker:
        former = await RemoteBroker.start(broker.server, SECOND)
        await former.join()
        await former.fall_silent()
        restarted = await RemoteBroker.start(broker.server, SECOND)
        failed: list[str] = []
        counted(restarted.lifecycle, "_heartbeat_failed", failed)
        joined = asyncio.create_task(restarted.join())
        await until(lambda: former.registered.fenced)
        before = len(failed)
        await joined
        assert before >= 10 and len(failed) <= before + 2, "it asks often, and registers with the next request"
        said = [record.message for record in caplog.records if record.name == "odradek.lifecycle"]
        (line,) = [words for words in said if "session of this broker's previous process" in words]
        assert line.endswith("at most broker.session.timeout.ms=4000 after its last heartbeat")
        assert not [words for words in said if "rejected" in words]
        await restarted.die()
        await former.die()


async def test_closed_port_refuses_and_listening_port_does_not() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert not await is_refused("127.0.0.1", port)
    assert not await is_refused("localhost", port)
    server.close()
    await server.wait_closed()
    assert await is_refused("127.0.0.1", port)
    assert await is_refused("localhost", port)


async def test_a_process_that_is_dying_may_take_a_connection_and_is_gone_all_the_same() -> None:
    """A dying process closes its sockets one by one. A connection may end before the listener does."""
    accepted = asyncio.Event()

    def took(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        writer.close()

    server = await asyncio.start_server(took, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[:2]
    assert not await is_gone([address], again_s=(0.001, 0.001))
    accepted.clear()
    looking = asyncio.create_task(is_gone([address], again_s=[0.001] * 10_000))
    await accepted.wait()
    server.close()
    await server.wait_closed()
    assert await looking


async def test_stopped_process_accepts_connections() -> None:
    """The kernel accepts connections for a stopped process. When there are too many, it does not respond."""
    with socket.socket() as stopped, contextlib.ExitStack() as others:
        stopped.bind(("127.0.0.1", 0))
        stopped.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(stopped.getsockname())
        assert not await is_refused(*stopped.getsockname())


def test_single_node_refuses_registration_requests() -> None:
    with odradek.Broker() as broker:
        assert broker.server.controller.sessions is None and broker.server.controller.forwarding.made is None
