"""The simulation as a whole: its clock, network, disk, randomness, and nodes."""

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
from collections.abc import Collection, Coroutine, Mapping
from itertools import count
from pathlib import Path
from typing import TypeVar

from ... import buggify
from ...server.broker import BrokerServer
from ...server.config.broker_config import BrokerConfig
from ...storage.files.open_files import OPEN_FILES
from ..embedded import EMBEDDED_DEFAULTS
from .disk import IN_MEMORY, Disk
from .incarnations import OWNER, Incarnation
from .loop import VirtualLoop
from .network import LATENCY_S, SimulatedNetwork, SimulatedSocket
from .replacements import Replacements

T = TypeVar("T")
#: The time between two readings of the turn clock: work is divided into slices as in real time, but by the amount of
#: work alone.
TURN_CLOCK_STEP_S = 50e-6
#: A cleaner is a separate process, which simulated time does not control.
_PROPERTIES = {**EMBEDDED_DEFAULTS, "log.cleaner.enable": "false"}


class Node:
    """A broker that may crash and start again on its data. Create it with `Simulation.node`."""

    def __init__(self, simulation: Simulation, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.directory = simulation.directory / name
        self._simulation = simulation
        self._properties = {**_PROPERTIES, "listeners": "PLAINTEXT://127.0.0.1:0", **properties}
        #: The offset of its clock from the true time; may be changed at any moment.
        self.skew_s = 0.0
        #: The seconds by which its clock is ahead after each second, and since when.
        self._drift, self._drifts_since = 0.0, 0.0
        self._life: Incarnation | None = None
        self._server: BrokerServer | None = None

    @property
    def is_running(self) -> bool:
        """True while the node is running or starting."""
        return self._server is not None

    @property
    def life(self) -> Incarnation | None:
        """The current incarnation, from a start to a crash or stop; each is a different object."""
        return self._life

    @property
    def server(self) -> BrokerServer:
        assert self._server is not None, f"{self.name} does not run"
        return self._server

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.server.addresses)

    async def start(self) -> None:
        """Starts the node. Returns when it serves, on the port of its first start."""
        assert self._server is None, f"{self.name} runs already"
        config = BrokerConfig({"log.dirs": str(self.directory), **self._properties})
        time_s = asyncio.get_running_loop().time
        server = BrokerServer(
            config, clock=lambda: self._clock(time_s()), turn_clock=count(0.0, TURN_CLOCK_STEP_S).__next__
        )
        self._life, self._server = Incarnation(self.name), server
        await self._within(server.start())
        said = [f"{one.name}://{one.endpoint.address}" for one in server.network.listeners]
        self._properties["listeners"] = ",".join(said)

    def _clock(self, now: float) -> float:
        return now + self.skew_s + self._drift * (now - self._drifts_since)

    def drift(self, rate: float) -> None:
        """Makes the clock gain `rate` seconds a second from now on; 0 ends it, and the offset stays."""
        now = self._simulation.loop.time()
        self.skew_s = self._clock(now) - now
        self._drift, self._drifts_since = rate, now

    def pause(self) -> None:
        """Stops the process, as SIGSTOP does: it stands still while time passes. Its kernel goes on."""
        if self._life is not None:
            self._life.pause()

    def resume(self) -> None:
        """Ends the pause: what became due runs now, in order."""
        if self._life is not None:
            self._simulation.loop.call_soon(self._life.resume)

    async def stop(self) -> None:
        """Stops the node. Returns after an orderly shutdown of its process."""
        life = self._life
        await self._within(self.server.stop())
        if life is not None and self._life is life:  # it did not crash at the last moment
            life.is_alive = False
            self._simulation._keep_ended(life)
            self._life = self._server = None
            self._simulation.network.crashed(self.name)

    def crash(self, *, power: bool = False) -> None:
        """Crashes the node immediately, as kill -9 does: none of its code runs any more. With `power`, unsynced data is
        lost too.
        """
        assert self._life is not None, f"{self.name} does not run"
        server, self._server = self.server, None
        self._life.is_alive = False
        self._simulation._keep_ended(self._life)
        self._life = None
        self._simulation.network.crashed(self.name)
        for directory in server.node.directories:
            directory.close()
        OPEN_FILES.shrink_to(0)  # a process's end closes its files; other nodes open theirs again
        if power:
            self._simulation.disk.power_failure(self.directory)

    async def _within(self, coroutine: Coroutine[object, None, None]) -> None:
        context = contextvars.copy_context()
        context.run(OWNER.set, self._life)
        await asyncio.get_running_loop().create_task(coroutine, context=context)


class Process:
    """A user's program outside the nodes. `kill` ends it between two steps and breaks its connections."""

    def __init__(self, simulation: Simulation, name: str, coroutine: Coroutine[object, None, object]) -> None:
        self.name = name
        self._simulation = simulation
        self._life = Incarnation(name)
        context = contextvars.copy_context()
        context.run(OWNER.set, self._life)
        self.task = simulation.loop.create_task(coroutine, context=context)

    def kill(self) -> None:
        self._life.is_alive = False
        self._simulation._keep_ended(self._life)
        self._simulation.network.crashed(self.name)


class Simulation:
    """A simulation: enter it, create nodes, and `run` a coroutine. While entered, it replaces time, randomness, sockets and
    syncs for the code of its thread.

    `started`: the start time in seconds since 1970; today by default. `points`: the names of the points of
    `odradek.buggify` that act.
    """

    def __init__(
        self,
        seed: int = 0,
        latency_s: tuple[float, float] = LATENCY_S,
        *,
        started: float | None = None,
        points: Collection[str] = (),
    ) -> None:
        self.rng = random.Random(seed)
        self.network = SimulatedNetwork(random.Random(self.rng.random()), latency_s)
        self.loop = VirtualLoop(random.Random(self.rng.random()), self.network, started)
        self.directory = Path(tempfile.mkdtemp(prefix="odradek-simulation-", dir=IN_MEMORY))
        self.disk = Disk(self.directory, random.Random(seed), self.loop.time)
        self.buggify = buggify.Buggify(random.Random(self.rng.random()), points) if points else None
        #: The suspended tasks of incarnations that have ended. A collected task runs its cleanup: an earlier incarnation
        #: would write to the files of a later one. No code of a killed process runs.
        self._ended: list[asyncio.Task[object]] = []
        #: The functions that are replaced while it is entered; more may be added.
        self.replaced = Replacements()

    def node(self, name: str, properties: Mapping[str, str] | None = None) -> Node:
        """Creates a node without starting it. `properties` override those of an embedded broker."""
        return Node(self, name, properties or {})

    def process(self, name: str, coroutine: Coroutine[object, None, object]) -> Process:
        """Starts `coroutine` as a separate program. Links to it can be cut by its `name`."""
        return Process(self, name, coroutine)

    def _keep_ended(self, life: Incarnation) -> None:
        """Keeps the tasks of an incarnation that has ended until the simulation ends."""
        self._ended += self.loop.tasks_of(life)

    def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Runs the coroutine to its end. Raises Deadlock when it waits for an event that never comes."""
        return self.loop.run_until_complete(coroutine)

    def __enter__(self) -> Simulation:
        dice = random.Random(self.rng.random())
        self.replaced = replaced = Replacements()
        replaced.replace(time, "time", self.loop.time)
        replaced.replace(time, "monotonic", self.loop.time)
        replaced.replace(time, "time_ns", lambda: round(self.loop.time() * 1e9))
        replaced.replace(time, "monotonic_ns", lambda: round(self.loop.time() * 1e9))
        replaced.replace_class(socket, "socket", lambda *_, **__: SimulatedSocket(self.network))
        replaced.replace(os, "urandom", dice.randbytes)
        replaced.replace(random, "_urandom", dice.randbytes)
        seeded = random.Random(dice.random())
        for name, draw in list(vars(random).items()):
            if isinstance(getattr(draw, "__self__", None), random.Random):
                replaced.replace(random, name, getattr(seeded, name))
        self.disk.install(replaced)
        buggify.active = self.buggify
        return self

    def __exit__(self, *_: object) -> None:
        buggify.active = None
        self.replaced.undo()
        # The cleanup of suspended tasks finds no files to work on.
        shutil.rmtree(self.directory, ignore_errors=True)
        # Tasks of crashed nodes are still suspended; they end here silently.
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        self.loop.close()
        self._ended.clear()
        OPEN_FILES.shrink_to(0)
        gc.collect()
