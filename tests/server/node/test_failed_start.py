"""A start that fails at any step: the cause is raised, whatever was started is stopped, and the directories are closed.

A failure is injected at each line of the functions that a start consists of, by a trace function.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import odradek
import pytest
from odradek.server.broker import BrokerServer
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller import metadata_opening
from odradek.server.controller.driver import QuorumDriver
from odradek.server.controller.formatting import format_directories
from odradek.server.controller.metadata_opening import InvalidQuorum
from odradek.server.controller.subsystem import ControllerSubsystem
from odradek.server.network.listener_set import ListenerSet
from odradek.server.network.subsystem import NetworkSubsystem
from odradek.server.observability.subsystem import ObservabilitySubsystem
from odradek.server.partitions.online_directories import open_directories
from odradek.server.replicas.subsystem import ReplicasSubsystem
from odradek.server.runtime.thread_pools import ThreadPools

from tests.server.harness.remote_broker import controller_endpoint, first_node, until

#: The functions of a start, in their order.
STEPS: tuple[Callable[..., Any], ...] = (
    BrokerServer.start,
    BrokerServer._start,
    BrokerServer._make_subsystems,
    BrokerServer._serve,
    NetworkSubsystem.start,
    NetworkSubsystem.accept,
    ObservabilitySubsystem.start,
    ListenerSet.bind,
    ListenerSet.start,
    ControllerSubsystem.start,
    ControllerSubsystem._watch_brokers,
    ReplicasSubsystem.start,
    QuorumDriver.start,
    QuorumDriver._start_alone,
    metadata_opening.open_log,
    metadata_opening._load,
    open_directories,
)
#: In a cluster, the functions that a single node does not run.
CLUSTER_STEPS: tuple[Callable[..., Any], ...] = (
    BrokerServer.start,
    ControllerSubsystem.start,
    ControllerSubsystem._join_quorum,
    QuorumDriver._start_among_others,
)
#: After each such number of failures the directory is used again.
AGAIN = 5


class Injected(Exception):
    """The failure of a step."""


Line = tuple[str, int]


class Injector:
    """Traces the steps. Raises `Injected` before the line `at` runs; with None, records the lines that run."""

    def __init__(self, steps: tuple[Callable[..., Any], ...], at: Line | None = None) -> None:
        self._codes: dict[CodeType, str] = {step.__code__: step.__qualname__ for step in steps}
        self._at = at
        self.seen: dict[Line, None] = {}

    def __enter__(self) -> Injector:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code in self._codes else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            line = self._codes[frame.f_code], frame.f_lineno - frame.f_code.co_firstlineno
            if line == self._at and line not in self.seen:
                self.seen[line] = None
                raise Injected(str(line))
            self.seen[line] = None
        return self._line


def config_of(directory: Path, **settings: Any) -> BrokerConfig:
    return BrokerConfig(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"{directory}/one,{directory}/two",
            "odradek.metrics.port": "0",
            "odradek.slow.request.ms": "1000",
            **{name: str(value) for name, value in settings.items()},
        }
    )


def open_files() -> Iterator[str]:
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            yield str(fd.readlink())


def open_below(directory: Path) -> list[str]:
    """Returns the files below the directory that this process has open."""
    return [path for path in open_files() if path.startswith(f"{directory}/")]


def sockets() -> set[str]:
    return {path for path in open_files() if path.startswith("socket:")}


#: Names of the threads of pools begin so. Other brokers of this process, such as the session's, start theirs at any time.
POOL_THREADS = tuple(f"odradek-{pool.name}_" for pool in ThreadPools())


class Before:
    """The tasks, sockets and threads of this process before a start of `broker`, which may leave no others."""

    def __init__(self, broker: BrokerServer) -> None:
        #: References to pools, as the collector would end the threads of a pool that the broker does not shut down.
        self._pools = broker.node.pools
        self._tasks = asyncio.all_tasks()
        self._sockets = sockets()
        self._threads = set(threading.enumerate())

    async def check_nothing_is_left(self, directory: Path) -> None:
        await until(lambda: not self._tasks_left(), lambda: f"tasks are left: {self._tasks_left()}")
        assert not open_below(directory)
        await until(lambda: sockets() <= self._sockets, lambda: f"sockets are open: {sockets() - self._sockets}")
        await until(lambda: not self.threads_left(), lambda: f"threads run:\n{described(self.threads_left())}")
        assert gc.isenabled()

    def threads_left(self) -> list[threading.Thread]:
        return [
            thread
            for thread in threading.enumerate()
            if any(thread in pool._threads for pool in self._pools)
            or (thread.name.startswith("odradek-") and self._is_new(thread))
        ]

    def _is_new(self, thread: threading.Thread) -> bool:
        return thread not in self._threads and not thread.name.startswith(POOL_THREADS)

    def _tasks_left(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks() - self._tasks


def described(threads: list[threading.Thread]) -> str:
    """Returns names and stacks of threads."""
    frames = sys._current_frames()
    found = [(thread.name, frames.get(thread.ident or 0)) for thread in threads]
    return "\n".join(f"{name}:\n{''.join(traceback.format_stack(frame))}" for name, frame in found if frame)


async def check_failure_at(line: Line, steps: tuple[Callable[..., Any], ...], config: BrokerConfig, path: Path) -> None:
    """Starts a broker, with a failure at the line."""
    broker = BrokerServer(config)
    before = Before(broker)
    with Injector(steps, line):
        with pytest.raises(Injected) as raised:
            await broker.start()
        assert str(raised.value) == str(line)
    raised.value.__traceback__ = None
    del broker, raised
    try:
        await before.check_nothing_is_left(path)
    except AssertionError as failed:
        failed.add_note(f"after a failure at line {line[1]} of {line[0]}")
        raise


async def lines_of(steps: tuple[Callable[..., Any], ...], config: BrokerConfig) -> list[Line]:
    """Returns the lines that a start runs."""
    broker = BrokerServer(config)
    with Injector(steps) as injector:
        await broker.start()
    await broker.stop()
    texts = {step.__qualname__: inspect.getsource(step).splitlines() for step in steps}
    return [(name, number) for name, number in injector.seen if texts[name][number].strip() != "try:"]


@pytest.mark.usefixtures("sockets")
async def test_a_failure_at_each_step_of_a_start_is_raised_and_leaves_nothing_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = await lines_of(STEPS, config_of(tmp_path / "whole"))
    assert {name for name, _ in lines} == {step.__qualname__ for step in STEPS}
    assert len(lines) > 60
    for number, line in enumerate(lines):
        directory = tmp_path / str(number)
        await check_failure_at(line, STEPS, config_of(directory), tmp_path)
        if number % AGAIN == 0:
            broker = BrokerServer(config_of(directory))
            await broker.start()
            await broker.stop()
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.fixture(autouse=True)
def _disk_without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred starts wait long for a disk, and no power is lost here."""
    for name in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, name, lambda *fd: None)


@pytest.fixture
def first() -> Iterator[odradek.Broker]:
    with first_node() as broker:
        yield broker


@pytest.mark.usefixtures("sockets")
async def test_a_failure_at_each_step_of_joining_a_cluster_leaves_nothing_open(
    tmp_path: Path, first: odradek.Broker
) -> None:
    assert first.server is not None
    endpoint = controller_endpoint(first.server)
    config = config_of(
        tmp_path / "second",
        **{
            "node.id": 7,
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{endpoint.host}:{endpoint.port}",
            "controlled.shutdown.enable": "true",
        },
    )
    format_directories(config, first.server.node.identity.cluster_id)
    lines = await lines_of(CLUSTER_STEPS, config)
    assert {name for name, _ in lines} == {step.__qualname__ for step in CLUSTER_STEPS}
    for line in lines:
        await check_failure_at(line, CLUSTER_STEPS, config, tmp_path)


@pytest.mark.usefixtures("sockets")
async def test_a_refused_metadata_log_is_the_shown_cause_and_is_closed(tmp_path: Path) -> None:
    broker = BrokerServer(config_of(tmp_path))
    await broker.start()
    await broker.stop()
    properties = tmp_path / "one" / "meta.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("directory.id")]
    properties.write_text("\n".join([*lines, "directory.id=AAAAAAAAAAAAAAAAAAAAcQ", ""]))
    broker = BrokerServer(config_of(tmp_path))
    before = Before(broker)
    with pytest.raises(InvalidQuorum, match=r"directory\.id is not that of the voter") as raised:
        await broker.start()
    await before.check_nothing_is_left(tmp_path)
    assert raised.value.__context__ is None


class Later(Exception):
    """A failure of a part's stop."""


@pytest.mark.usefixtures("sockets")
async def test_a_part_that_fails_to_stop_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: Any) -> None:
        raise Later("this part cannot stop")

    broker = BrokerServer(config_of(tmp_path))
    before = Before(broker)
    await broker.start()
    monkeypatch.setattr(ListenerSet, "stop", fail)
    with pytest.raises(Later):
        await broker.stop()
    (logged,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert logged.exc_info and isinstance(logged.exc_info[1], Later), "one line with the cause, however deep the part"
    assert not open_below(tmp_path)
    assert not before.threads_left()
    monkeypatch.undo()
    await broker.network.listeners.stop()
    await before.check_nothing_is_left(tmp_path)
