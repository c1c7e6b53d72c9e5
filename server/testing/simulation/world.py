"""The simulation as a whole: its clock, network, disk and chance, and the nodes in it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from ...broker import BrokerServer
from ...config.broker_config import BrokerConfig
from ...embedded import EMBEDDED_DEFAULTS
from .disk import Disk
from .loop import OWNER, Incarnation, VirtualLoop
from .network import LATENCY_S, Network, SimulatedSocket

T = TypeVar("T")
#: Between two looks at the clock of turns: work is divided into slices as it is in real time, but by the work alone.
TURN_CLOCK_STEP_S = 50e-6
#: Disks are simulated; where the real one would be, memory will do.
_IN_MEMORY = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)
#: A cleaner is a process of its own, which simulated time does not reach.
_PROPERTIES = {**EMBEDDED_DEFAULTS, "log.cleaner.enable": "false"}


class Node:
    """A broker that may crash and start again on its data. Make it by `Simulation.node`."""

    def __init__(self, simulation: Simulation, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.directory = simulation.directory / name
        self._simulation = simulation
        self._properties = {**_PROPERTIES, "listeners": "PLAINTEXT://127.0.0.1:0", **properties}
        #: How far its clock is from the true time; it may be changed at any moment.
        self.skew_s = 0.0
        self._life: Incarnation | None = None
        self._server: BrokerServer | None = None

    @property
    def is_running(self) -> bool:
        """Or starting."""
        return self._server is not None

    @property
    def life(self) -> Incarnation | None:
        """From a start to a crash or stop; each is another object."""
        return self._life

    @property
    def server(self) -> BrokerServer:
        assert self._server is not None, f"{self.name} does not run"
        return self._server

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.server.addresses)

    async def start(self) -> None:
        """Returns when it serves, on the port of its first start."""
        assert self._server is None, f"{self.name} runs already"
        config = BrokerConfig({"log.dirs": str(self.directory), **self._properties})
        time_s = asyncio.get_running_loop().time
        server = BrokerServer(
            config, clock=lambda: time_s() + self.skew_s, turn_clock=count(0.0, TURN_CLOCK_STEP_S).__next__
        )
        self._life, self._server = Incarnation(self.name), server
        await self._within(server.start())
        said = [f"{one.name}://{one.endpoint.address}" for one in server.listeners]
        self._properties["listeners"] = ",".join(said)

    async def stop(self) -> None:
        """Returns when its process has ended in good order."""
        life = self._life
        await self._within(self.server.stop())
        if life is not None and self._life is life:  # it did not crash in its last moment
            life.is_alive = False
            self._life = self._server = None
            self._simulation.network.crashed(self.name)

    def crash(self, *, power: bool = False) -> None:
        """As kill -9, at this instant: nothing of it runs any more. With `power`, what was not synced is lost too."""
        assert self._life is not None, f"{self.name} does not run"
        server, self._server = self.server, None
        self._life.is_alive = False
        self._life = None
        self._simulation.network.crashed(self.name)
        for directory in server.directories:
            directory.close()
        if power:
            self._simulation.disk.power_failure(self.directory)

    async def _within(self, coroutine: Coroutine[Any, Any, None]) -> None:
        context = contextvars.copy_context()
        context.run(OWNER.set, self._life)
        await asyncio.get_running_loop().create_task(coroutine, context=context)


class Process:
    """Somebody's program, apart from the nodes: `kill` ends it between two steps, its connections break."""

    def __init__(self, simulation: Simulation, name: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.name = name
        self._simulation = simulation
        self._life = Incarnation(name)
        context = contextvars.copy_context()
        context.run(OWNER.set, self._life)
        self.task = simulation.loop.create_task(coroutine, context=context)

    def kill(self) -> None:
        self._life.is_alive = False
        self._simulation.network.crashed(self.name)


class Simulation:
    """Enter it, make nodes, and `run` a coroutine. While it is entered, time, chance and sockets of this process are its
    own.

    `started`: when it begins, in seconds since 1970; today, unless said.
    """

    def __init__(
        self, seed: int = 0, latency_s: tuple[float, float] = LATENCY_S, *, started: float | None = None
    ) -> None:
        self.chance = random.Random(seed)
        self.network = Network(random.Random(self.chance.random()), latency_s)
        self.loop = VirtualLoop(random.Random(self.chance.random()), self.network, started)
        self.directory = Path(tempfile.mkdtemp(prefix="odradek-simulation-", dir=_IN_MEMORY))
        self.disk = Disk(self.directory)
        self._undo: list[tuple[Any, str, Any]] = []

    def node(self, name: str, properties: Mapping[str, str] | None = None) -> Node:
        """One that has not been started yet. `properties` are laid over what an embedded broker has."""
        return Node(self, name, properties or {})

    def process(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> Process:
        """Starts `coroutine` as a program of its own, which links can be cut from by `name`."""
        return Process(self, name, coroutine)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Plays it to its end. Raises Deadlock when it waits for what will never be."""
        return self.loop.run_until_complete(coroutine)

    def __enter__(self) -> Simulation:
        dice = random.Random(self.chance.random())
        self._replace(time, "time", self.loop.time)
        self._replace(time, "monotonic", self.loop.time)
        self._replace(socket, "socket", lambda *_, **__: SimulatedSocket(self.network))
        self._replace(os, "urandom", dice.randbytes)
        self._replace(random, "_urandom", dice.randbytes)
        random.seed(dice.random())
        self.disk.install()
        return self

    def _replace(self, place: Any, name: str, function: Callable[..., Any]) -> None:
        self._undo.append((place, name, getattr(place, name)))
        setattr(place, name, function)

    def __exit__(self, *_: object) -> None:
        self.disk.uninstall()
        while self._undo:
            setattr(*self._undo.pop())
        random.seed()
        # What crashed is still in the middle of something; it ends here, without a word.
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        self.loop.close()
        gc.collect()
        shutil.rmtree(self.directory, ignore_errors=True)
