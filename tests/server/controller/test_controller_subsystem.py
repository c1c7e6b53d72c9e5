"""The controller of a node around scripted parts: which parts a node has, and the order of its start and stop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.access.authorization.authorization import CLASS_KEY
from odradek.server.access.subsystem import AccessSubsystem
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.subsystem import ControllerSubsystem
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.nodes import node_of

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,C://127.0.0.1:0",
    "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.listener.names": "C",
}
BROKER = {"process.roles": "broker", "controller.quorum.voters": "9@there:9093", "controller.listener.names": "C"} | {
    "listeners": "PLAINTEXT://127.0.0.1:0"
}
BOTH = {"process.roles": "broker,controller", "controller.quorum.voters": "0@here:9093,9@there:9093", **LISTENERS}
CONTROLLER = BOTH | {"process.roles": "controller", "listeners": "C://127.0.0.1:0"}


class Part:
    """A part whose methods may be waited for, and are noted."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name, self._calls = name, calls

    def __getattr__(self, method: str) -> Any:
        async def done() -> None:
            pass

        def call(*arguments: Any) -> Any:
            self._calls.append(f"{self._name}.{method}")
            return done() if method in ("start", "stop", "leave", "run", "register", "start_early") else None

        return call


class Driver(Part):
    is_alone: bool
    broker_epoch: int
    caught_up: asyncio.Future[None]


class Plain(Part):
    """A part whose methods are not waited for."""

    def __getattr__(self, method: str) -> Any:
        return lambda *arguments: self._calls.append(f"{self._name}.{method}")


class Node:
    def __init__(self, properties: dict[str, str], *, is_alone: bool, leads: tuple[bool, ...] | None = ()) -> None:
        self.calls: list[str] = []
        config = BrokerConfig({"node.id": "0", **properties})
        assert CLASS_KEY not in properties
        listeners: Any = Part("listeners", self.calls)
        self.lost: list[Any] = []
        listeners.on_connection_lost = self.lost
        hosted = {
            number: SimpleNamespace(role=SimpleNamespace(is_leader=one)) for number, one in enumerate(leads or ())
        }
        node = node_of(config)
        node.halt.begin()
        network: Any = SimpleNamespace(listeners=listeners, peers=Lazy(lambda: None))
        parts: Any = (network, None if leads is None else hosted, None, lambda request: None)
        self.subsystem = ControllerSubsystem(node, AccessSubsystem(node), *parts)
        self.driver = Driver("driver", self.calls)
        self.driver.is_alone = is_alone
        self.driver.broker_epoch = 5
        self.driver.caught_up = asyncio.get_running_loop().create_future()
        self.subsystem.driver = self.driver  # type: ignore[assignment]
        for name in ("sessions", "stopped_brokers"):
            setattr(self.subsystem, f"_make_{name}", lambda name=name: Plain(name, self.calls))
        self.subsystem._make_lifecycle = lambda: Part("lifecycle", self.calls)  # type: ignore[method-assign]


async def ended(task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(20):
        await asyncio.wait([task])


async def started(node: Node) -> None:
    """Starts the node, which catches up when it has begun to wait."""
    task = asyncio.ensure_future(node.subsystem.start())
    for _ in range(5):
        await asyncio.sleep(0)
    if not task.done():
        node.calls.append("waits")
        node.driver.caught_up.set_result(None)
    await ended(task)
    task.result()


ALONE: dict[str, str] = {}
KEY = {"delegation.token.secret.key": "s"}


@pytest.mark.parametrize(
    ("properties", "is_alone", "calls"),
    [
        (ALONE, True, ["driver.start"]),
        (BROKER, False, ["driver.start", "listeners.start_early", "waits", "stopped_brokers.start", "lifecycle.register"]),
        (
            BOTH,
            False,
            ["driver.start", "sessions.start", "listeners.start_early", "waits", "stopped_brokers.start",
             "lifecycle.register"],
        ),
        (CONTROLLER, False, ["driver.start", "sessions.start", "listeners.start_early"]),
    ],
    ids=["alone", "broker", "both", "controller"],
)  # fmt: skip
async def test_start_of_a_node_by_its_roles(properties: dict[str, str], is_alone: bool, calls: list[str]) -> None:
    """Other voters reach a controller before there is a leader; a broker registers when it has caught up."""
    node = Node(properties, is_alone=is_alone)
    await started(node)
    assert node.calls == calls
    node.calls.clear()
    await node.subsystem.run()
    is_registered = "lifecycle.register" in calls
    assert node.calls == (["lifecycle.run"] if is_registered else [])
    node.calls.clear()
    await node.subsystem.stop()
    parts = [part for part in ("sessions", "stopped_brokers") if f"{part}.start" in calls]
    assert node.calls == ["driver.stop", *(f"{part}.stop" for part in parts)]
    assert node.subsystem.forwarding.made is None, "a stop makes no part"


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize(("properties", "may_expire"), [(ALONE, True), (BROKER, False), (CONTROLLER, True)])
async def test_controllers_with_a_secret_remove_expired_tokens(
    properties: dict[str, str], may_expire: bool, has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.server.controller import token_expiry

    node = Node(properties | (KEY if has_key else {}), is_alone=properties is ALONE)
    monkeypatch.setattr(token_expiry, "TokenExpiry", lambda *_: Plain("expiry", node.calls))
    await started(node)
    assert ("expiry.start" in node.calls) == (may_expire and has_key)
    await node.subsystem.stop()
    assert ("expiry.stop" in node.calls) == (may_expire and has_key)


@pytest.mark.parametrize(
    ("is_alone", "epoch", "controlled", "hands_over", "calls"),
    [
        (True, 5, "true", False, []),
        (False, 5, "true", True, ["lifecycle.continue_lone_voter"]),
        (False, 0, "true", True, ["lifecycle.continue_lone_voter"]),
        (False, -1, "true", False, []),
        (False, 5, "false", False, ["lifecycle.continue_lone_voter"]),
    ],
)
async def test_broker_to_which_others_came_hands_its_leaderships_over(
    is_alone: bool, epoch: int, controlled: str, hands_over: bool, calls: list[str]
) -> None:
    node = Node({"controlled.shutdown.enable": controlled}, is_alone=is_alone)
    node.driver.broker_epoch = epoch

    class Lifecycle(Part):
        def continue_lone_voter(self) -> None:
            node.calls.append("lifecycle.continue_lone_voter")

    node.subsystem._make_lifecycle = lambda: Lifecycle("lifecycle", node.calls)  # type: ignore[method-assign, assignment, return-value]
    for _ in range(2):  # the second time it has a lifecycle
        assert node.subsystem.hands_over() == hands_over
    assert node.calls == calls and node.subsystem.broker_epoch == epoch
    if hands_over:
        node.calls.clear()
        await node.subsystem.leave()
        assert node.calls == ["lifecycle.leave"]


@pytest.mark.parametrize(
    ("leads", "expected"), [(None, False), ((), False), ((False, False), False), ((False, True), True)]
)
async def test_node_leads_when_one_of_its_partitions_does(leads: tuple[bool, ...] | None, expected: bool) -> None:
    assert Node(BOTH, is_alone=False, leads=leads).subsystem._leads() == expected


@pytest.mark.parametrize("has_others", [True, False])
async def test_broker_that_may_have_ended_is_looked_for_where_there_are_others(has_others: bool) -> None:
    node = Node(BOTH, is_alone=not has_others)
    await started(node)
    node.calls.clear()
    node.subsystem._suspect(object())  # type: ignore[arg-type]
    assert node.calls == (["stopped_brokers.look_for"] if has_others else [])


async def test_requests_are_forwarded_by_one_part_that_the_stop_closes() -> None:
    node = Node(BROKER, is_alone=False)
    asked: list[Any] = []
    node.subsystem.forwarding.made = SimpleNamespace(  # type: ignore[assignment]
        submit=lambda *given, **client: asked.append((given, client)),
        close=lambda: node.calls.append("forwarding.close"),
    )
    node.subsystem._forward(5, 3, 7, principal="User:alice")  # type: ignore[arg-type]
    assert asked == [((5, 3, 7), {"principal": "User:alice"})]
    await node.subsystem.stop()
    assert node.calls == ["driver.stop", "forwarding.close"]


async def test_session_watch_learns_of_lost_connections() -> None:
    node = Node(BOTH, is_alone=False)
    watch = ControllerSubsystem._make_sessions(node.subsystem)
    assert node.lost == [watch.connection_lost]
