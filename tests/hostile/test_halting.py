"""A node halts for the causes in one list, and for no request or message of another node."""

from __future__ import annotations

import ast
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.vote import VotePartitionRequest as VotePartition
from odradek.protocol.messages.vote import VoteRequest
from odradek.protocol.messages.vote import VoteTopicRequest as VoteTopic
from odradek.replication.controller.controller import Controller
from odradek.replication.quorum.diverged_commit import DivergedCommit
from odradek.replication.quorum.invariants import BrokenInvariant
from odradek.replication.quorum.replica import QuorumReplica
from odradek.server.broker import BrokerServer
from odradek.server.controller.commits import Commits
from odradek.server.coordinators.coordinator_driver import CoordinatorDriver
from odradek.server.endpoints import list_groups, metadata
from odradek.server.partitions.partition_changes import PartitionChanges
from odradek.server.runtime import halting
from odradek.storage.files.failures import LogDirectoryFailure

from compat_tests.wire import ConnectionClosed, WireClient

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
TOO_LONG = "y" * 40_000


@pytest.fixture
def broker(sockets: None) -> Iterator[odradek.Broker]:
    """A broker and controller that other nodes can send vote requests to."""
    listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    with odradek.Broker(config={"listeners": listeners, "controller.listener.names": "CONTROLLER"}) as made:
        yield made


def controller_of(broker: odradek.Broker) -> str:
    (found,) = [one.endpoint.address for one in broker.server.network.listeners if one.name == "CONTROLLER"]
    return found


def ask(address: str, request: Any, version: int) -> Any:
    with WireClient(address, timeout=DEADLINE_S) as client:
        return client.call(request, version)


def create(broker: odradek.Broker, name: str) -> int:
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=10_000)
    code: int = ask(broker.bootstrap_servers, request, 7).topics[0].error_code
    return code


def serves(broker: odradek.Broker) -> bool:
    """Returns whether the broker commits a new topic and does not halt."""
    return not broker.server.failed.done() and create(broker, f"topic-{time.monotonic_ns()}") == ErrorCode.NONE


def vote() -> VoteRequest:
    asked = VotePartition(replica_epoch=0, replica_id=5, last_offset_epoch=0, last_offset=0)
    return VoteRequest(voter_id=-1, topics=[VoteTopic(topic_name="__cluster_metadata", partitions=[asked])])


def raises(failure: Exception) -> Callable[..., Any]:
    def injected(*arguments: Any, **named: Any) -> Any:
        raise failure

    return injected


def await_halt(server: BrokerServer) -> Exception:
    deadline = time.monotonic() + DEADLINE_S
    while not server.failed.done():
        assert time.monotonic() < deadline, "the broker does not halt"
        time.sleep(0.005)
    return server.failed.result()


# ---- failures that end a request


def test_unencodable_response_with_a_place_for_an_error_gets_unknown_server_error(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = ListGroupsResponse(groups=[ListedGroup(group_id=TOO_LONG)])
    monkeypatch.setattr(list_groups, "ENDPOINT", replace(list_groups.ENDPOINT, handle=lambda services, call: response))
    for version in (0, 5):
        assert ask(broker.bootstrap_servers, ListGroupsRequest(), version).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert serves(broker)


def test_unencodable_response_without_a_place_for_an_error_closes_the_connection(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        metadata,
        "ENDPOINT",
        replace(metadata.ENDPOINT, handle=lambda services, call: MetadataResponse(cluster_id=TOO_LONG)),
    )
    with pytest.raises(ConnectionClosed):
        ask(broker.bootstrap_servers, MetadataRequest(), 9)
    monkeypatch.undo()
    assert serves(broker)


def test_unencodable_response_of_the_quorum_ends_its_request_alone(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.replication.quorum import wire

    controller = controller_of(broker)
    assert ask(controller, vote(), 2).topics
    with monkeypatch.context() as injected:
        injected.setattr(wire, "CLUSTER_METADATA_TOPIC", TOO_LONG)
        injected.setattr(wire, "partition_of", lambda request: request.topics[0].partitions[0])
        assert ask(controller, vote(), 2).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(controller, vote(), 2).error_code == ErrorCode.NONE
    assert serves(broker)


def test_bug_in_the_replica_ends_the_request_that_met_it(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = controller_of(broker)
    with monkeypatch.context() as injected:
        injected.setattr(QuorumReplica, "_request", raises(IndexError("injected")))
        assert ask(controller, vote(), 2).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert serves(broker)


def test_bug_in_the_controller_ends_the_request_that_met_it(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("handle", "replay"):
        with monkeypatch.context() as injected:
            injected.setattr(Controller, method, raises(KeyError("injected")))
            assert create(broker, "lost") == ErrorCode.UNKNOWN_SERVER_ERROR
        assert serves(broker)
    assert create(broker, "lost") == ErrorCode.NONE


def test_bug_in_publishing_ends_nothing(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, method in (
        (PartitionChanges, "_apply_partition"),
        (PartitionChanges, "steps"),
        (CoordinatorDriver, "apply"),
    ):
        with monkeypatch.context() as injected:
            injected.setattr(kind, method, raises(RuntimeError("injected")))
            assert create(broker, f"half-{method}") == ErrorCode.NONE
            named = MetadataRequestTopic(name=f"half-{method}")
            assert ask(broker.bootstrap_servers, MetadataRequest(topics=[named]), 9).topics[0].error_code == 0
        assert serves(broker)


def test_bug_in_a_timer_of_the_quorum_ends_nothing(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(controller_of(broker), vote(), 2).topics
    met: list[int] = []

    def injected(self: QuorumReplica, now: int) -> None:
        met.append(now)
        raise ValueError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(QuorumReplica, "expire", injected)
        patch.setattr(QuorumReplica, "deadline", lambda self: 0)
        began = time.monotonic()
        assert serves(broker)
        while len(met) < 3 and time.monotonic() < began + DEADLINE_S:
            time.sleep(0.005)
        assert 3 <= len(met) <= 100 + (time.monotonic() - began) * 20
    assert serves(broker)


# ---- failures that halt a node


def test_broken_state_of_the_quorum_halts_the_node(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert issubclass(DivergedCommit, BrokenInvariant)
    server, failure = broker.server, DivergedCommit("injected")
    monkeypatch.setattr(QuorumReplica, "_request", raises(failure))
    with pytest.raises((ConnectionClosed, TimeoutError)), WireClient(controller_of(broker), timeout=0.2) as client:
        client.call(vote(), 2)
    assert await_halt(server) is failure


def test_committed_records_that_cannot_be_replayed_halt_the_node(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = broker.server
    monkeypatch.setattr(Commits, "_replay", raises(KeyError("injected")))
    assert create(broker, "lost") == ErrorCode.NOT_CONTROLLER
    failure = await_halt(server)
    assert isinstance(failure, halting.CommittedRecordsUnusable) and isinstance(failure.__cause__, KeyError)


def test_a_controller_that_cannot_begin_halts_the_node() -> None:
    failure = halting.cannot_begin(KeyError("injected"))
    assert halting.cause_of(failure) is not None and failure.__cause__ is not None
    disk = LogDirectoryFailure("/d", "writing", OSError(5, "I/O error"))
    assert halting.cannot_begin(disk) is disk and halting.unusable("a snapshot", disk) is disk


def test_a_failed_disk_is_logged_without_a_traceback_and_a_contradiction_with_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "odradek.halting"):
        halting.decide(LogDirectoryFailure("/d", "writing", OSError(28, "No space left on device")))
        assert [record.exc_info for record in caplog.records] == [None]
        halting.decide(halting.ActivationFailed("injected"))
        assert caplog.records[-1].exc_info


def test_no_other_failure_is_a_cause(broker: odradek.Broker) -> None:
    for failure in (ValueError(), OSError(24, "Too many open files"), AssertionError(), MemoryError(), KeyError()):
        assert halting.cause_of(failure) is None
        assert not broker.server.node.halt.halt(failure)
    assert serves(broker)


# ---- one list


def test_a_node_that_runs_is_ended_in_one_place() -> None:
    """Only `failed.set_result` makes a node halt, and only `os._exit` ends its process."""
    found = []
    for path in [*ROOT.glob("server/**/*.py"), *ROOT.glob("cli/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\b_?exit\b|\babort\b|set_result", text) else ():
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("os._exit", "os.abort") or called.endswith(".failed.set_result"):
                found.append((path.relative_to(ROOT).as_posix(), called))
    # The second ends a process that was told to stop, and hangs.
    ends = [("cli/foreground.py", "os._exit")] * 2
    assert sorted(found) == [*ends, ("server/runtime/halt.py", "self.failed.set_result")]


def test_the_documents_list_every_cause_with_its_reason() -> None:
    text = (ROOT / "docs" / "specialists" / "hostile.md").read_text(encoding="utf-8")
    section = text.partition("## Causes that halt a node")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{cause.failure.__name__}` | {cause.reason} |" for cause in halting.CAUSES]
    assert {cause.exit_code for cause in halting.CAUSES} == {halting.EXIT_CODE} == {1}


def test_quorum_is_described_and_topics_deleted_after_all(broker: odradek.Broker) -> None:
    partition = DescribeQuorumTopicRequest(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumPartitionRequest(partition_index=0)]
    )
    described = ask(broker.bootstrap_servers, DescribeQuorumRequest(topics=[partition]), 2)
    assert described.error_code == ErrorCode.NONE
    assert create(broker, "t") == ErrorCode.NONE
    deleted = ask(broker.bootstrap_servers, DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
    assert deleted.responses[0].error_code == ErrorCode.NONE
