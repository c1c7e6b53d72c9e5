"""A round of one seed: whole brokers in simulated time, workloads, faults, rest, a last read, and the verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from aiokafka.cluster import ClusterMetadata
from odradek.testing.simulation import Simulation
from odradek.testing.simulation.cluster.client import Client
from odradek.testing.simulation.cluster.faults import FaultInjector
from odradek.testing.simulation.cluster.invariants import Broken
from odradek.testing.simulation.cluster.nodes import SimulatedCluster
from odradek.testing.simulation.cluster.trace import Trace
from odradek.testing.simulation.cluster.watch import Watch
from odradek.testing.simulation.cluster.workload import create_topic

from compat_tests.histories.idle_workers import idle_workers
from compat_tests.histories.operation import read
from compat_tests.histories.recorder import Recorder, now_ns
from compat_tests.histories.verdict import Verdict, judge
from compat_tests.histories.workloads import (
    APPEND,
    QUEUE,
    Setting,
    Worker,
    appender,
    keys_of,
    raw_member,
    reader,
    register_user,
    sender,
    subscriber,
)
from tests.simulated.blocking import Pause, as_coroutine, connect
from tests.simulated.clients import SimulatedAiokafka, brokers_in_order
from tests.simulated.drain import Drain
from tests.simulated.plan import Phase, Plan

#: Rounds begin at the same time, so that they write the same bytes.
STARTED_S = 1_800_000_000.0
#: The time for the cluster to start or to recover, and for workers to end: sessions, timeouts, and jumped clocks.
_SETTLE_S = 300.0
_LOOK_S = 0.5
#: Simulated time between two collections of garbage.
_COLLECT_S = 30.0
_LATENCIES_S = ((0.0001, 0.002), (0.001, 0.06))
_TOPICS = {QUEUE: 3, APPEND: 2}

WORKERS: Sequence[Worker] = (
    sender(SimulatedAiokafka, QUEUE),
    reader(SimulatedAiokafka, (QUEUE, APPEND), "aiokafka"),
    appender(SimulatedAiokafka, "a", 0.2),
    appender(SimulatedAiokafka, "b", 0.7),
    subscriber(SimulatedAiokafka, "one"),
    subscriber(SimulatedAiokafka, "two"),
    raw_member(1),
    raw_member(2),
    register_user(1),
    register_user(2),
)


@dataclass
class Outcome:
    plan: Plan
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    verdict: Verdict | None = None
    #: Work that was not done in time, or the invariant that is broken.
    broken: str = ""
    idle: Sequence[str] = ()
    seconds: float = 0.0
    events: int = 0
    deliveries: int = 0
    #: Equal for equal runs.
    hash: int = 0

    @property
    def is_good(self) -> bool:
        return self.verdict is not None and not self.verdict.violations and not self.broken


class Round:
    """The run of a plan. `path` gets the history."""

    def __init__(self, plan: Plan, path: Path, show: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self._path = path
        self._rng = Random(plan.seed)
        latency_s = self._rng.choice(_LATENCIES_S)
        self._simulation = Simulation(self._rng.getrandbits(32), latency_s, started=STARTED_S, points=plan.points)
        self.trace = Trace(self._simulation.loop.time, show)
        self.outcome = Outcome(plan)
        self._over: asyncio.Future[None]

    def run(self) -> Outcome:
        outcome = self.outcome
        logging.disable(logging.CRITICAL)  # clients log each lost connection
        # The collector runs by numbers of objects, which imports change, and it closes unused connections. With its own
        # times a run is not repeatable.
        gc.collect()
        gc.disable()
        try:
            with self._simulation as simulation, Recorder(self._path) as self._recorder:
                simulation.replaced.replace(socket, "create_connection", connect)
                simulation.replaced.replace(ClusterMetadata, "brokers", brokers_in_order)
                simulation.loop.set_exception_handler(self._met_exception)
                try:
                    simulation.run(self._until_over())
                except (Broken, AssertionError, TimeoutError) as broken:
                    outcome.broken = repr(broken)
                outcome.seconds = simulation.loop.time() - STARTED_S
                outcome.events, outcome.deliveries = self._watch.events, simulation.network.deliveries
                outcome.faults = self._faults.counts
                outcome.hash = self.trace.hash
                if simulation.buggify is not None:
                    outcome.points = simulation.buggify.counts
                worker_of = dict(self._recorder.thread_of)
        finally:
            gc.enable()
            logging.disable(logging.NOTSET)
        history = read(self._path)
        outcome.verdict = judge(history)
        outcome.idle = idle_workers(WORKERS, worker_of, history)
        return outcome

    async def _until_over(self) -> None:
        loop = self._simulation.loop
        self._over = loop.create_future()
        self._cluster = SimulatedCluster(self._simulation, self.trace, self._dice(), self.plan.properties)
        self._watch = Watch(self._cluster)
        self._faults = FaultInjector(self._cluster, self._watch, self._dice(), self.plan.faults)
        self._cluster.on_power_failure, self._cluster.failed = self._watch.power_failed, self._break
        loop.watch = self._watch
        collecting = loop.create_task(self._collect())
        story = loop.create_task(self._story())
        story.add_done_callback(self._ended)
        try:
            await self._over
        finally:
            collecting.cancel()

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(_COLLECT_S)
            gc.collect()

    def _ended(self, story: asyncio.Task[None]) -> None:
        failure = story.exception()
        if failure is not None:
            self._break(failure)
        elif not self._over.done():
            self._over.set_result(None)

    def _break(self, failure: BaseException) -> None:
        self.trace.say("", repr(failure))
        if not self._over.done():
            self._over.set_exception(failure)

    def _met_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if isinstance(failure, Broken):
            self._break(failure)

    def _dice(self) -> Random:
        return Random(self._rng.getrandbits(64))

    async def _story(self) -> None:
        cluster = self._cluster
        for node_id in cluster.node_ids:
            cluster.start(node_id)
        await self._until(lambda: all(map(cluster.serves, cluster.node_ids)), "all nodes serve")
        for name, partitions in _TOPICS.items():
            await create_topic(Client(cluster.bootstrap, name), name, partitions)
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        stopped, caught_up = Pause(), Pause()
        setting = Setting(bootstrap, self._recorder, stopped, caught_up)
        working = {worker: asyncio.create_task(self._work(worker, setting)) for worker in WORKERS}
        for phase in self.plan.phases:
            for pause in (stopped, caught_up):
                pause.stretch = phase.stretch
                pause.wake()
            await self._live_through(phase)
        await self._mend()
        stopped.stretch = caught_up.stretch = 1.0
        stopped.set()
        caught_up.wake()
        await self._until(
            lambda: all(task.done() for worker, task in working.items() if not worker.catches_up), "writers end"
        )
        caught_up.set()
        await self._until(lambda: all(task.done() for task in working.values()), "readers end")
        for task in working.values():
            task.result()
        async with asyncio.timeout(_SETTLE_S):
            await Drain(cluster.bootstrap, self._recorder).run([key for topic in _TOPICS for key in keys_of(topic)])

    async def _work(self, worker: Worker, setting: Setting) -> None:
        rng = Random(f"{self.plan.seed} {worker.name}")

        def run() -> None:
            with self._recorder.named(worker.name):
                worker.run(setting, rng)

        await as_coroutine(run)

    async def _live_through(self, phase: Phase) -> None:
        if phase.mends:
            await self._mend()
        began = now_ns()
        if phase.has_faults:
            await self._faults.run(phase.seconds)
            self._recorder.fault("faults of a phase", began)
        else:
            await asyncio.sleep(phase.seconds)

    async def _mend(self) -> None:
        await self._faults.mend()

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLE_S
        while not holds():
            assert loop.time() < deadline, f"not within {_SETTLE_S:g} s: {what}"
            await asyncio.sleep(_LOOK_S)
