"""Workers whose clients never work are named, and no client hides a wrong response of a broker."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NoReturn

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.uuids import uuid_to_text

from compat_tests.histories.client import Client, Got, Identity, Key, Refused, Sending, Unknown
from compat_tests.histories.coordinator_client import CoordinatorClient
from compat_tests.histories.idle_workers import idle_workers
from compat_tests.histories.operation import ABORTED, FAIL, INFO, OK, POLL, SEND, TXN, Operation, read
from compat_tests.histories.raw_client import RawClient
from compat_tests.histories.recorder import Recorder
from compat_tests.histories.rounds import Outcome, Plan, plan_workers
from compat_tests.histories.verdict import judge
from compat_tests.histories.workloads import (
    APPEND,
    QUEUE,
    Setting,
    Worker,
    appender,
    copier,
    reader,
    sender,
    subscriber,
)

_DEADLINE_S = 60
_WORKERS = plan_workers(Plan())
#: The first failure of a client ends the workload.
_over = threading.Event()


class FailingClient(Client):
    """Fails in each method."""

    name = "failing"

    def _fail(self) -> NoReturn:
        _over.set()
        raise Unknown("always")

    def send(self, records: Sequence[Sending]) -> list[int | None]:
        self._fail()

    def begin(self) -> None:
        self._fail()

    def join_offsets(self, offsets: Mapping[Key, int]) -> None:
        self._fail()

    def end(self, *, commits: bool) -> None:
        self._fail()

    def assign(self, offsets: Mapping[Key, int]) -> None:
        self._fail()

    def subscribe(self, topics: Sequence[str]) -> None:
        self._fail()

    def seek(self, offsets: Mapping[Key, int]) -> None:
        self._fail()

    def poll(self, timeout_s: float) -> list[Got]:
        self._fail()

    def commit(self, offsets: Mapping[Key, int]) -> None:
        self._fail()

    def close(self) -> None:
        pass


class UnopenedClient(FailingClient):
    """Fails when it is made."""

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._fail()


@pytest.mark.parametrize("client", [FailingClient, UnopenedClient])
@pytest.mark.parametrize(
    "worker_of",
    [
        lambda client: sender(client, QUEUE),
        lambda client: reader(client, (QUEUE, APPEND), "one"),
        lambda client: subscriber(client, "one"),
        lambda client: appender(client, "one", 0.3),
        lambda client: copier(client, "one"),
    ],
    ids=["sender", "reader", "subscriber", "appender", "copier"],
)
def test_worker_whose_client_never_works_is_idle(
    worker_of: Callable[[type[Client]], Worker], client: type[Client], tmp_path: Path
) -> None:
    _over.clear()
    worker = worker_of(client)
    with Recorder(tmp_path / "history.jsonl") as recorder:
        setting = Setting("127.0.0.1:1", recorder, _over, _over)
        thread = threading.Thread(target=worker.run, args=(setting, Random(1)), name=worker.name, daemon=True)
        thread.start()
        thread.join(_DEADLINE_S)
        assert not thread.is_alive() and _over.is_set()
    history = read(tmp_path / "history.jsonl")
    verdict = judge(history)
    assert not verdict.violations, "a history without an effect has no anomaly"
    (idle,) = idle_workers([worker], recorder.thread_of, history)
    assert idle == f"{worker.name}: no {', no '.join(worker.kinds)}"
    outcome = Outcome(1, Plan(), verdict=verdict, idle=[idle])
    assert not outcome.is_good and f"idle: {idle}" in str(outcome)
    assert Outcome(1, Plan(), verdict=verdict).is_good


def test_commit_that_was_not_replicated_in_time_may_still_take_effect() -> None:
    client = CoordinatorClient("127.0.0.1:1", "group")
    with pytest.raises(Unknown):
        client.check(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(Refused):
        client.check(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def operation(f: str, outcome: str = OK, *, error: str = "") -> Operation:
    value = {SEND: [["send", "a/0", [0, "v"]]], POLL: [["poll", {"a/0": [[0, "v"]]}]]}.get(f)
    return Operation(7, f, outcome, 1, 2, value, error=error)


@pytest.mark.parametrize("worker", _WORKERS, ids=[worker.name for worker in _WORKERS])
def test_worker_with_an_effect_of_each_kind_is_not_idle(worker: Worker) -> None:
    names = {7: worker.name}
    history = [operation(kind) for kind in worker.kinds]
    assert idle_workers([worker], names, history) == []
    assert idle_workers([worker], {7: "another"}, history) != []
    for kind in worker.kinds:
        others = [one for one in history if one.f != kind]
        assert idle_workers([worker], names, [*others, operation(kind, INFO)]) == [f"{worker.name}: no {kind}"]


def test_polls_without_records_are_no_effect_and_aborts_are() -> None:
    reads = reader(FailingClient, (QUEUE,), "one")
    empty = Operation(7, POLL, OK, 1, 2, [["poll", {}]])
    assert idle_workers([reads], {7: reads.name}, [empty]) != []
    appends = appender(FailingClient, "one", 0.3)
    assert idle_workers([appends], {7: appends.name}, [operation(TXN, FAIL, error="crash: gone")]) != []
    assert idle_workers([appends], {7: appends.name}, [operation(TXN, FAIL, error=ABORTED)]) == []


@pytest.fixture
def wrong_broker() -> Iterator[SimpleNamespace]:
    """A server that responds to each request with the correlation id of another one."""

    def respond() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(struct.pack(">iiB", 5, 12345, 0))
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        host, port = listener.getsockname()
        yield SimpleNamespace(host=host, port=port, leader_id=1, node_id=1)
        thread.join(_DEADLINE_S)
        assert not thread.is_alive()


def test_wrong_response_to_a_coordinator_client_is_no_unknown_outcome(
    wrong_broker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compat_tests.histories.coordinator_client.coordinator_of", lambda *_: wrong_broker)
    client = CoordinatorClient("", "group")
    with pytest.raises(AssertionError, match="answer 12345 in place of 1"):
        client.commit("topic", 1)
    client.close()


def test_wrong_response_to_a_raw_client_is_no_unknown_outcome(
    wrong_broker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = SimpleNamespace(partition_index=0, leader_id=1)
    metadata = SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])], brokers=[wrong_broker])
    monkeypatch.setattr("compat_tests.histories.raw_client.ask_any", lambda *_: metadata)
    client = RawClient(Identity("", "none"))
    with pytest.raises(AssertionError, match="answer 12345 in place of 1"):
        client.send([Sending(Key(uuid_to_text(bytes(15) + b"\x01"), 0), "v")])
    client.close()
