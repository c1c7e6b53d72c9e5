"""A round of one seed: whole brokers in simulated time, workloads, faults, rest, a last read, and the verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from odradek.replication.quorum import wire as quorum_wire
from odradek.testing.simulation import Simulation
from odradek.testing.simulation.cluster.client import Client
from odradek.testing.simulation.cluster.faults import FaultInjector
from odradek.testing.simulation.cluster.invariants import Broken
from odradek.testing.simulation.cluster.nodes import SimulatedCluster
from odradek.testing.simulation.cluster.operator import Operator
from odradek.testing.simulation.cluster.trace import Trace
from odradek.testing.simulation.cluster.watch import Watch
from odradek.testing.simulation.cluster.workload import create_topic

from compat_tests.histories.client import Key, Refused, Unknown
from compat_tests.histories.idle_workers import idle_workers
from compat_tests.histories.operation import read
from compat_tests.histories.recorder import Recorder, now_ns
from compat_tests.histories.recreation import recreator
from compat_tests.histories.verdict import Verdict, judge
from compat_tests.histories.workloads import (
    APPEND,
    COPIES,
    QUEUE,
    SHARE_GROUP,
    SHARED,
    SOURCE,
    TOPICS,
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
from compat_tests.share_faults.group import SharedTopic
from tests.simulated.blocking import Pause, as_coroutine, connect
from tests.simulated.chain import chain_copier, committed
from tests.simulated.clients import IS_SPARING, SimulatedAiokafka, brokers_in_order, paced_metadata_update
from tests.simulated.drain import Drain
from tests.simulated.plan import (
    CHAIN,
    COORDINATORS,
    GROUPS,
    QUEUE_WORK,
    RECREATION,
    SHARE,
    TRANSACTIONS,
    Phase,
    Plan,
)
from tests.simulated.share_member import simulated_sharer

#: Rounds begin at the same time, so that they write the same bytes.
STARTED_S = 1_800_000_000.0
#: The time for the cluster to start or to recover, and for workers to end: sessions, timeouts, and jumped clocks.
_SETTLE_S = 300.0
_LOOK_S = 0.5
#: The wait of the quorum's fetches in a long seed, a quarter of controller.quorum.fetch.timeout.ms; Kafka's is 500 ms.
_QUORUM_WAIT_MS = 2_500
#: Simulated time between two collections of garbage.
_COLLECT_S = 600.0
_LATENCIES_S = ((0.0001, 0.002), (0.001, 0.06))
_AGAIN_S = 2.0
#: A lock lasts 30 s of a broker's clock, which may drift.
_LOCK_NS = 29_000_000_000
_SHARE_SETTINGS = {"share.auto.offset.reset": "earliest"}
#: Intervals between two changes of the cluster, while faults come.
_CHANGES_S = (1.0, 5.0)

#: By workload: its topics, and its workers.
_TOPICS = {QUEUE_WORK: (QUEUE, APPEND), CHAIN: (SOURCE, COPIES), SHARE: (SHARED,)}
_WORKERS: dict[str, Sequence[Worker]] = {
    QUEUE_WORK: (
        sender(SimulatedAiokafka, QUEUE),
        reader(SimulatedAiokafka, (QUEUE, APPEND), "aiokafka"),
    ),
    TRANSACTIONS: (
        appender(SimulatedAiokafka, "a", 0.2),
        appender(SimulatedAiokafka, "b", 0.7),
    ),
    GROUPS: (
        subscriber(SimulatedAiokafka, "one"),
        subscriber(SimulatedAiokafka, "two"),
    ),
    COORDINATORS: (
        raw_member(1),
        raw_member(2),
        register_user(1),
        register_user(2),
    ),
    CHAIN: (sender(SimulatedAiokafka, SOURCE), chain_copier(SimulatedAiokafka)),
    SHARE: (sender(SimulatedAiokafka, SHARED), simulated_sharer(1), simulated_sharer(2)),
    RECREATION: (recreator(),),
}


@dataclass
class Outcome:
    plan: Plan
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    verdict: Verdict | None = None
    #: Work that was not done in time, or the invariant that is broken.
    broken: str = ""
    idle: Sequence[str] = ()
    seconds: float = 0.0
    events: int = 0
    deliveries: int = 0
    #: Changes of directories that power losses took back.
    taken_back: int = 0
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
        chosen = (QUEUE_WORK, *plan.workloads)
        self._topics = [topic for name in chosen for topic in _TOPICS.get(name, ())]
        self._workers = [worker for name in chosen for worker in _WORKERS[name]]
        self._rng = Random(plan.seed)
        latency_s = self._rng.choice(_LATENCIES_S)
        self._simulation = Simulation(self._rng.getrandbits(32), latency_s, started=STARTED_S, points=plan.points)
        self._operator_s = self._rng.choice(_CHANGES_S)
        self.trace = Trace(self._simulation.loop.time, show)
        self.outcome = Outcome(plan)
        self._over: asyncio.Future[None]

    def run(self) -> Outcome:
        outcome = self.outcome
        logging.disable(logging.CRITICAL)  # clients log each lost connection
        # The collector runs by numbers of objects, which imports change, and it closes unused connections. With its own
        # times a run is not repeatable.
        gc.collect()
        gc.freeze()  # modules and codecs, which each collection would look through
        gc.disable()
        try:
            with self._simulation as simulation, Recorder(self._path) as self._recorder:
                simulation.replaced.replace(socket, "create_connection", connect)
                simulation.replaced.replace(ClusterMetadata, "brokers", brokers_in_order)
                simulation.replaced.replace(AIOKafkaClient, "_metadata_update", paced_metadata_update)
                if self.plan.is_sparing:
                    simulation.replaced.set_value(quorum_wire, "FETCH_MAX_WAIT_MS", _QUORUM_WAIT_MS)
                simulation.loop.set_exception_handler(self._met_exception)
                try:
                    simulation.run(self._until_over())
                except (Broken, AssertionError, TimeoutError) as broken:
                    outcome.broken = repr(broken)
                outcome.seconds = simulation.loop.time() - STARTED_S
                outcome.events, outcome.deliveries = self._watch.events, simulation.network.deliveries
                outcome.taken_back = simulation.disk.entries.taken_back
                outcome.faults = self._faults.counts
                outcome.changes = self._operator.counts
                outcome.hash = self.trace.hash
                if simulation.buggify is not None:
                    outcome.points = simulation.buggify.counts
                worker_of = dict(self._recorder.thread_of)
        finally:
            gc.enable()
            gc.unfreeze()
            logging.disable(logging.NOTSET)
        history = read(self._path)
        outcome.verdict = judge(history)
        outcome.idle = idle_workers(self._workers, worker_of, history)
        return outcome

    async def _until_over(self) -> None:
        loop = self._simulation.loop
        self._over = loop.create_future()
        self._cluster = SimulatedCluster(self._simulation, self.trace, self._dice(), self.plan.properties)
        self._watch = Watch(self._cluster)
        self._faults = FaultInjector(self._cluster, self._watch, self._dice(), self.plan.faults)
        self._operator = Operator(
            Client(self._cluster.bootstrap, QUEUE),
            self._cluster.node_ids,
            self._dice(),
            {topic: TOPICS[topic] for topic in self._topics},
            self.plan.changes,
            self._cluster.directory_ids if self._cluster.has_voters_in_log else None,
        )
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
        failure = RuntimeError("the story was cancelled") if story.cancelled() else story.exception()
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
        IS_SPARING.set(self.plan.is_sparing)
        for node_id in cluster.node_ids:
            cluster.start(node_id)
        await self._until(lambda: all(map(cluster.serves, cluster.node_ids)), "all nodes serve")
        for name in self._topics:
            await create_topic(Client(cluster.bootstrap, name), name, TOPICS[name])
        self._bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        self._shared = SharedTopic(self._bootstrap, SHARED, SHARE_GROUP)
        if SHARE in self.plan.workloads:
            await self._until_done(lambda: self._shared.configure(_SHARE_SETTINGS), "the share group is configured")
            self._recorder.settings({"lock_ns": _LOCK_NS}, group=SHARE_GROUP)
        stopped, caught_up = Pause(self.plan.pause_s), Pause(self.plan.pause_s)
        setting = Setting(self._bootstrap, self._recorder, stopped, caught_up)
        working = {worker: asyncio.create_task(self._work(worker, setting)) for worker in self._workers}
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
        async with asyncio.timeout(2 * _SETTLE_S):
            await self._catch_up()
        caught_up.set()
        await self._until(lambda: all(task.done() for task in working.values()), "readers end")
        for task in working.values():
            task.result()
        async with asyncio.timeout(_SETTLE_S):
            await Drain(cluster.bootstrap, self._recorder).run(
                [key for topic in self._topics for key in keys_of(topic)]
            )

    async def _catch_up(self) -> None:
        """Waits until the copier and the share group are at the ends of their topics."""
        ends = Drain(self._cluster.bootstrap, self._recorder)
        if CHAIN in self.plan.workloads:
            source = {key: await ends.end(key) for key in keys_of(SOURCE)}
            await self._until_done(lambda: self._is_copied(source), "the chain is copied")
        if SHARE in self.plan.workloads:
            empty = [key.partition for key in keys_of(SHARED) if not await ends.end(key)]
            if len(empty) < len(keys_of(SHARED)):
                await self._until_done(lambda: self._shared.lag(empty) == 0, "the share group is at the end")

    def _is_copied(self, ends: Mapping[Key, int]) -> bool:
        try:
            return all((offset or 0) >= ends[key] for key, offset in committed(self._bootstrap).items())
        except (Refused, Unknown):
            return False

    async def _until_done(self, work: Callable[[], bool], what: str) -> None:
        """Calls blocking code until it returns true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLE_S
        while not await as_coroutine(work):
            assert loop.time() < deadline, f"not within {_SETTLE_S:g} s: {what}"
            await asyncio.sleep(_AGAIN_S)

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
            changing = asyncio.create_task(self._operator.run(self._operator_s))
            await self._faults.run(phase.seconds)
            changing.cancel()
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
