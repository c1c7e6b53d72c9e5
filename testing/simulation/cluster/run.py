"""Runs one seed under injected faults, from the first start of three nodes to the final check of their logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ....protocol.records.batch import iter_headers
from ....protocol.records.record import decode_batch
from ....server.runtime.gc_policy import GC_PAUSES
from ..world import Simulation
from .client import Client
from .committer import Committer
from .faults import FaultInjector
from .invariants import ACKNOWLEDGED, NO_BUG, PROGRESS, Broken
from .nodes import VOTER_IDS, SimulatedCluster
from .operator import Operator
from .trace import Trace
from .watch import Watch
from .workload import PARTITIONS, TOPIC, Consumer, Producer, create_topic

if TYPE_CHECKING:
    from .watch import Key

#: Runs begin at the same time, so that they write the same bytes.
STARTED_S = 1_800_000_000.0
#: The time for a cluster without faults to start, and to recover after the last fault: sessions of 9 s, and clocks that
#: jumped.
WELL_WITHIN_S = 120.0
#: The time in which clients must be able to write and read: less than any broker or client remembers an error.
SERVES_WITHIN_S = 25.0
_LOOK_S = 0.25
#: Latencies of all links: within a room, or within a building.
_LATENCIES_S = ((0.0001, 0.002), (0.001, 0.06))
#: Intervals between two changes of the cluster, two commits of a consumer, and two batches of a producer in a
#: partition.
_OPERATOR_S = (0.5, 3.0, 1e6)
_COMMITS_S = (0.3, 2.0)
_INTERVALS_S = (0.06, 0.25, 0.25)
PRODUCERS = 2


class Ran(NamedTuple):
    """The result of a run. `hash`: equal for equal runs. `seconds`: virtual time."""

    hash: int
    seconds: float
    events: int
    acknowledged: int


class Run:
    """The run of one seed. `show` gets each line of the trace."""

    def __init__(self, seed: int, duration_s: float = 40.0, show: Callable[[str], None] | None = None) -> None:
        self._rng = Random(seed)
        latency_s = self._rng.choice(_LATENCIES_S)
        self._simulation = Simulation(self._rng.getrandbits(32), latency_s, started=STARTED_S)
        self._duration_s = duration_s
        self.trace = Trace(self._simulation.loop.time, show)
        self._broken: BaseException | None = None
        self._over: asyncio.Future[None]

    def run(self) -> Ran:
        """Raises Broken, and any other exception of this code."""
        with GC_PAUSES.pause():  # garbage is freed when the run is over
            return self._execute()

    def _execute(self) -> Ran:
        with _listening(self._break), self._simulation as simulation:
            simulation.loop.set_exception_handler(self._met_exception)
            simulation.run(self._until_over())
            seconds = simulation.loop.time() - STARTED_S
            acknowledged = sum(len(producer.acknowledged) for producer in self._producers)
            return Ran(self.trace.hash, seconds, self._watch.events, acknowledged)

    def _break(self, broken: BaseException) -> None:
        if self._broken is None:
            self._broken = broken
            self.trace.say("", repr(broken))
            if not self._over.done():
                self._over.set_exception(broken)

    def _met_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if isinstance(failure, Broken):
            self._break(failure)
        elif failure is not None:
            self._break(_bug(context["message"], failure))

    async def _until_over(self) -> None:
        loop = self._simulation.loop
        self._over = loop.create_future()
        self._cluster = SimulatedCluster(self._simulation, self.trace, self._dice())
        self._watch = Watch(self._cluster)
        self._cluster.on_power_failure, self._cluster.failed = self._watch.power_failed, self._break
        loop.watch = self._watch
        story = loop.create_task(self._story())
        story.add_done_callback(self._reported)
        await self._over

    def _reported(self, story: asyncio.Task[None]) -> None:
        failure = story.exception()
        if failure is not None:
            self._break(_bare(failure))
        elif not self._over.done():
            self._over.set_result(None)

    def _dice(self) -> Random:
        return Random(self._rng.getrandbits(64))

    # ---- the scenario

    async def _story(self) -> None:
        cluster = self._cluster
        for node_id in cluster.node_ids:
            cluster.start(node_id)
        await self._until(lambda: all(map(cluster.serves, cluster.node_ids)), "all nodes serve")
        await create_topic(self._client(), TOPIC, PARTITIONS)
        async with asyncio.TaskGroup() as group:
            self._put_to_work(group)
            faults = FaultInjector(cluster, self._watch, self._dice())
            await faults.run(self._duration_s)
            await faults.mend()
            await self._come_to_the_end(group)
        self._judge()

    def _put_to_work(self, group: asyncio.TaskGroup) -> None:
        rng = self._rng
        self._producers = [self._producer(number) for number in range(PRODUCERS)]
        self._consumer = Consumer(self._client())
        self._committer = Committer(self._client(), self._dice())
        self._operator = Operator(self._client(), self._cluster.node_ids, self._dice())
        interval_s = rng.choice(_INTERVALS_S)
        self._writing = [group.create_task(producer.run(interval_s)) for producer in self._producers]
        self._reading = group.create_task(self._consumer.run())
        self._committing = group.create_task(self._committer.run(rng.choice(_COMMITS_S)))
        self._operating = group.create_task(self._operator.run(rng.choice(_OPERATOR_S)))

    async def _come_to_the_end(self, group: asyncio.TaskGroup) -> None:
        """Ends all faults and waits until all started operations are complete."""
        self._operating.cancel()
        moving_back = group.create_task(self._operator.end())
        for producer in self._producers:
            producer.end()
        await self._until(lambda: all(task.done() for task in self._writing), "all producers are done", SERVES_WITHIN_S)
        await self._until(self._is_whole, "all replicas are in sync and equal")
        await self._until(self._has_read, "consumers have read all records", SERVES_WITHIN_S)
        self._committing.cancel()
        checking = group.create_task(self._committer.check())
        await self._until(checking.done, "the group coordinator returns the committed offset")
        self._reading.cancel()
        moving_back.cancel()

    def _client(self) -> Client:
        return Client(self._cluster.bootstrap, TOPIC)

    def _producer(self, number: int) -> Producer:
        return Producer(f"p{number}", self._client(), self._dice(), self._acknowledged)

    def _acknowledged(self, index: int, end_offset: int) -> None:
        history = self._watch.histories[self._key(index)]
        if end_offset > history.end_offset:
            raise Broken(
                ACKNOWLEDGED,
                f"{TOPIC}-{index}: offset {end_offset} was acknowledged, but the committed end offset is "
                f"{history.end_offset}",
            )

    def _key(self, index: int) -> Key:
        topic = self._watch.images.newest.topic(TOPIC)
        assert topic is not None
        return topic.id, index

    async def _until(self, holds: Callable[[], bool], what: str, within_s: float = WELL_WITHIN_S) -> None:
        """Waits for a condition. Raises Broken when it does not become true in time."""
        loop = self._simulation.loop
        deadline = loop.time() + within_s
        while not holds():
            if loop.time() > deadline:
                self._say_who_waits()
                raise Broken(PROGRESS, f"condition not met within {within_s:g} s: {what}")
            await asyncio.sleep(_LOOK_S)

    def _say_who_waits(self) -> None:
        places = [stack[-1] for stack in (task.get_stack() for task in asyncio.all_tasks()) if stack]
        for place in sorted({f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in places}):
            self.trace.say("", f"waits: {place}")

    def _is_whole(self) -> bool:
        for index in range(PARTITIONS):
            key = self._key(index)
            registration, history = self._watch.registration(key), self._watch.histories[key]
            if registration is None or set(registration.isr) != set(VOTER_IDS):
                return False
            shadows = [self._watch.replicas[node_id][key].shadow for node_id in VOTER_IDS]
            if any(
                shadow.digests != shadows[0].digests or shadow.end_offset != history.end_offset for shadow in shadows
            ):
                return False
        return True

    def _has_read(self) -> bool:
        return all(
            len(self._consumer.values[index]) == self._watch.histories[self._key(index)].end_offset
            for index in range(PARTITIONS)
        )

    def _judge(self) -> None:
        """Checks that each acknowledged record is at its offset, none is duplicated, and consumers have read exactly
        these records.
        """
        consumer = self._consumer
        for index in range(PARTITIONS):
            values = self._values(index)
            if consumer.values[index] != values:
                raise Broken(ACKNOWLEDGED, f"{TOPIC}-{index}: consumers have read records that the log does not have")
            if len(set(values)) != len(values):
                raise Broken(ACKNOWLEDGED, f"{TOPIC}-{index}: the log has a record twice")
        for producer in self._producers:
            for index, offset, sent in producer.acknowledged:
                if consumer.values[index][offset : offset + len(sent)] != sent:
                    raise Broken(ACKNOWLEDGED, f"{TOPIC}-{index}: the record at offset {offset} is not {sent}")

    def _values(self, index: int) -> list[bytes]:
        """Returns the values in the log of one replica, which equals the other logs."""
        hosted = self._cluster.nodes[VOTER_IDS[0]].server.partitions.hosted.get((TOPIC, index))
        assert hosted is not None
        values: list[bytes] = []
        while len(values) < hosted.log_end_offset:
            data = hosted.open_log().read(len(values), 1 << 20).bytes()
            for position, header in iter_headers(data):
                values += [record.value or b"" for record in decode_batch(data, position, header)]
        return values


def _bare(failure: BaseException) -> BaseException:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


class _Bugs(logging.Handler):
    """Reports what the server logs as a bug."""

    def __init__(self, tell: Callable[[BaseException], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[1] if record.exc_info else None
        if failure is not None:
            self._tell(_bug(record.getMessage(), failure))


def _bug(what: str, failure: BaseException) -> Broken:
    broken = Broken(NO_BUG, f"{what}: {failure!r}")
    broken.__cause__ = failure
    return broken


@contextmanager
def _listening(tell: Callable[[BaseException], None]) -> Iterator[None]:
    log, bugs = logging.getLogger("odradek"), _Bugs(tell)
    level, propagates = log.level, log.propagate
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.addHandler(bugs)
    try:
        yield
    finally:
        log.removeHandler(bugs)
        log.setLevel(level)
        log.propagate = propagates
