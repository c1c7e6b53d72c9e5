"""Brokers and aiokafka in simulated time: hours in an instant, reproducible by seed, with injected faults."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import gc
import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from odradek.server.controller.broker_lifecycle import LifecycleState
from odradek.server.controller.metadata_log import DIRECTORY_NAME
from odradek.storage.directory import CLEAN_SHUTDOWN_FILE
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.testing.simulation import Deadlock, Node, Simulation
from odradek.testing.simulation.cluster.nodes import VOTER_IDS, SimulatedCluster
from odradek.testing.simulation.cluster.trace import Trace
from odradek.testing.simulation.incarnations import OWNER, Incarnation

TOPIC = "orders"


async def produce(node: Node, count: int) -> list[tuple[int, int]]:
    """Returns (partition, offset) of each acknowledged record, in order."""
    producer = AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers, enable_idempotence=True, acks="all")
    await producer.start()
    done = [await producer.send_and_wait(TOPIC, b"%d" % number) for number in range(count)]
    await producer.stop()
    return [(one.partition, one.offset) for one in done]


async def consume(node: Node, count: int, group: str = "readers") -> list[bytes]:
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=node.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    values = [(await consumer.getone()).value for _ in range(count)]
    await consumer.stop()
    return values


async def story(simulation: Simulation) -> list[object]:
    """Runs a broker, records and a group. Returns the results and the time that passed."""
    node = simulation.node("one")
    await node.start()
    places = await produce(node, 20)
    values = await consume(node, 20)
    reported = [
        places,
        sorted(values),
        simulation.loop.time() - simulation.loop.started,
        node.server.node.identity.cluster_id,
    ]
    await node.stop()
    return reported


def test_seed_is_reproducible_and_other_seeds_differ() -> None:
    reported = []
    for seed in (1, 1, 2):
        with Simulation(seed) as simulation:
            reported.append(simulation.run(story(simulation)))
    assert reported[0] == reported[1]
    assert reported[0][:2] == reported[2][:2] and reported[0][2:] != reported[2][2:]


def test_an_hour_of_a_dead_member_s_session_is_an_instant() -> None:
    began = time.perf_counter()

    async def hold_the_group(node: Node) -> None:
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=node.bootstrap_servers,
            group_id="readers",
            session_timeout_ms=3_600_000,
            max_poll_interval_ms=7_200_000,
            enable_auto_commit=False,
        )
        await consumer.start()
        await asyncio.sleep(1e9)

    async def scenario() -> float:
        node = simulation.node("one", {"group.max.session.timeout.ms": "3600000"})
        await node.start()
        await produce(node, 3)
        holder = simulation.process("holder", hold_the_group(node))
        await asyncio.sleep(10)
        holder.kill()
        killed = simulation.loop.time()
        assert sorted(await consume(node, 3)) == [b"0", b"1", b"2"]
        await node.stop()
        return simulation.loop.time() - killed

    with Simulation(3) as simulation:
        waited = simulation.run(scenario())
    assert 3_500 < waited < 4_000
    assert time.perf_counter() - began < 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_acknowledged_records_survive_resets_and_crashes(seed: int) -> None:
    rng = Random(seed)

    async def scenario() -> None:
        node = simulation.node("one")
        await node.start()
        acknowledged: list[bytes] = []
        ended = asyncio.create_task(keep_sending(node, acknowledged))
        for _ in range(3):
            await asyncio.sleep(rng.uniform(0.2, 3))
            if rng.random() < 0.5:
                simulation.network.reset("one")
            else:
                node.crash()
                await asyncio.sleep(rng.uniform(0.1, 2))
                await node.start()
        await ended
        there = await consume(node, len(acknowledged), group="judge")
        assert there == acknowledged, "each once, and in order"
        await node.stop()

    with Simulation(seed) as simulation:
        simulation.run(scenario())


async def keep_sending(node: Node, acknowledged: list[bytes]) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=node.bootstrap_servers, enable_idempotence=True, acks="all", request_timeout_ms=60_000
    )
    await producer.start()
    for number in range(200):
        value = b"%d" % number
        await producer.send_and_wait(TOPIC, value, partition=0)
        acknowledged.append(value)
        await asyncio.sleep(0.02)
    await producer.stop()


def test_the_disk_forgets_what_was_not_synced() -> None:
    """A broker that syncs each batch keeps all that it acknowledged; with the default settings it may lose some."""

    async def scenario(flushes: str) -> tuple[int, int]:
        node = simulation.node("one", {"log.flush.interval.messages": flushes})
        await node.start()
        places = await produce(node, 10)
        node.crash(power=True)
        await node.start()
        end = node.server.partitions.hosted.get((TOPIC, places[0][0]))
        kept = 0 if end is None else end.log_end_offset
        await node.stop()
        return len(places), kept

    for flushes, keeps_all in (("1", True), (str(2**63 - 1), False)):
        with Simulation(5) as simulation:
            sent, kept = simulation.run(scenario(flushes))
        assert (kept == sent) is keeps_all


def test_paused_node_stands_still_and_then_does_what_became_due() -> None:
    async def scenario() -> tuple[bool, float, list[bytes]]:
        node = simulation.node("one")
        await node.start()
        await produce(node, 1)
        node.pause()
        began = simulation.loop.time()
        sending = asyncio.create_task(produce(node, 1))
        await asyncio.sleep(30)
        was_done = sending.done()
        node.resume()
        await sending
        took_s = simulation.loop.time() - began
        values = await consume(node, 2)
        await node.stop()
        return was_done, took_s, values

    with Simulation(3) as simulation:
        was_done, took_s, values = simulation.run(scenario())
    assert not was_done and 30 < took_s < 35
    assert values == [b"0", b"0"]


def test_timer_that_is_cancelled_after_a_pause_does_not_run() -> None:
    ran: list[str] = []

    async def scenario() -> None:
        loop, life = simulation.loop, Incarnation("one")
        context = contextvars.copy_context()
        context.run(OWNER.set, life)
        life.pause()
        loop.call_later(2.0, lambda: late.cancel(), context=context)
        late = loop.call_later(3.0, ran.append, "late", context=context)
        loop.call_later(4.0, ran.append, "in time", context=context)
        await asyncio.sleep(10)
        assert not ran
        loop.call_soon(life.resume)
        await asyncio.sleep(1)

    with Simulation(3) as simulation:
        simulation.run(scenario())
    assert ran == ["in time"]


@pytest.mark.parametrize("kind", ["full", "failing"])
def test_node_with_a_bad_disk_halts_and_keeps_what_it_acknowledged(kind: str) -> None:
    async def scenario() -> tuple[BaseException, list[bytes]]:
        node = simulation.node("one", {"log.flush.interval.messages": "1"})
        await node.start()
        await produce(node, 5)
        if kind == "full":
            simulation.disk.fill("one", 10)
        else:
            simulation.disk.fail("one", 1.0)
        sending = asyncio.create_task(produce(node, 1))
        failure = await node.server.failed
        node.crash()
        simulation.disk.mend("one")
        await node.start()
        sending.cancel()
        values = await consume(node, 5)
        await node.stop()
        return failure, values

    with Simulation(3) as simulation:
        failure, values = simulation.run(scenario())
    assert isinstance(failure, LogDirectoryFailure) and values == [b"0", b"1", b"2", b"3", b"4"]


def test_start_that_waits_for_others_ends_when_the_node_halts() -> None:
    async def scenario() -> None:
        cluster = SimulatedCluster(simulation, Trace(simulation.loop.time), Random(1))
        node = cluster.nodes[VOTER_IDS[0]]
        starting = asyncio.create_task(node.start())
        await asyncio.sleep(5)
        assert not starting.done()
        failure = LogDirectoryFailure(str(node.directory), "appending", OSError(errno.ENOSPC, "no room"))
        assert node.server.node.halt.halt(failure)
        with pytest.raises(LogDirectoryFailure):
            await asyncio.wait_for(starting, 60)

    with Simulation(3) as simulation:
        simulation.run(scenario())


async def serving_cluster(simulation: Simulation) -> SimulatedCluster:
    cluster = SimulatedCluster(simulation, Trace(simulation.loop.time), Random(1))
    for node_id in cluster.node_ids:
        cluster.start(node_id)
    while not all(map(cluster.serves, cluster.node_ids)):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return cluster


def test_killed_start_writes_nothing_when_its_memory_is_collected() -> None:
    """A collected coroutine runs its cleanup, which closes logs that a later incarnation has extended."""

    async def scenario() -> tuple[int, int]:
        cluster = await serving_cluster(simulation)
        for node_id in cluster.node_ids:
            cluster.crash(node_id)
        node = cluster.nodes[VOTER_IDS[0]]
        starts = [asyncio.create_task(node.start())]
        await asyncio.sleep(5)
        assert not starts[0].done(), "the start waits for the other voters"
        node.crash()
        segment = max((node.directory / DIRECTORY_NAME).glob("*.log"))
        with segment.open("ab") as file:
            file.write(b"of the next incarnation")
        size = segment.stat().st_size
        starts.clear()
        await asyncio.sleep(3600)  # timers hold the memory until they are due
        gc.collect()
        return size, segment.stat().st_size

    with Simulation(3) as simulation:
        size, kept = simulation.run(scenario())
    assert kept == size


def is_in(node: Node, state: LifecycleState) -> bool:
    """Returns whether the node's broker is in that state of its registration."""
    controller = getattr(node.server, "controller", None) if node.is_running else None  # made by the start
    lifecycle = None if controller is None else controller.lifecycle
    return lifecycle is not None and lifecycle.state is state


@pytest.mark.parametrize("state", [LifecycleState.REGISTERING, LifecycleState.STARTING], ids=lambda state: state.name)
def test_start_of_a_broker_that_has_caught_up_ends_when_its_disk_is_full(state: LifecycleState) -> None:
    """The metadata log stops, so the broker never learns that it is registered or unfenced."""

    async def scenario() -> None:
        cluster = await serving_cluster(simulation)
        node = cluster.nodes[VOTER_IDS[0]]
        cluster.crash(VOTER_IDS[0])
        await asyncio.sleep(1)
        starting = asyncio.create_task(node.start())
        while not is_in(node, state):  # noqa: ASYNC110
            await asyncio.sleep(0.0005)
        simulation.disk.fill(node.name, 0)
        with pytest.raises(LogDirectoryFailure):
            await asyncio.wait_for(starting, 120)
        assert not (node.directory / CLEAN_SHUTDOWN_FILE).exists()

    with Simulation(3) as simulation:
        simulation.run(scenario())


def test_clock_that_drifts_keeps_its_offset_when_the_drift_ends() -> None:
    async def scenario() -> list[float]:
        node = simulation.node("one")
        node.drift(0.01)
        await asyncio.sleep(1000)
        node.drift(0.0)
        ended = node.skew_s
        await asyncio.sleep(1000)
        return [ended, node.skew_s]

    with Simulation(3) as simulation:
        assert simulation.run(scenario()) == pytest.approx([10.0, 10.0], abs=0.001)


def test_wait_without_an_event_raises() -> None:
    async def scenario() -> None:
        await asyncio.get_running_loop().create_future()

    with Simulation() as simulation, pytest.raises(Deadlock):
        simulation.run(scenario())


def test_other_threads_keep_the_real_clock_sockets_and_randomness() -> None:
    real_socket, real_time = socket.socket, time.time

    def on_another_thread() -> tuple[bool, bool, float, bytes]:
        with socket.socket() as made:
            is_real = type(made) is real_socket
            is_instance = isinstance(made, socket.socket)
        asyncio.run(asyncio.sleep(0))  # a loop of its own has a pair of sockets and the real clock
        return is_real, is_instance, time.time() - real_time(), os.urandom(16)

    seen = []
    for _ in range(2):
        with Simulation(seed=1, started=1e9) as simulation, ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(on_another_thread).result())
            assert time.time() == simulation.loop.time() == 1e9
            assert not isinstance(socket.socket(), real_socket)
    assert socket.socket is real_socket and time.time is real_time
    for is_real, is_instance, ahead_s, _ in seen:
        assert is_real and is_instance and abs(ahead_s) < 60
    assert seen[0][-1] != seen[1][-1]


def test_simulation_draws_from_a_source_of_its_own() -> None:
    inside, outside = [], []
    for _ in range(2):
        with Simulation(seed=1), ThreadPoolExecutor(1) as pool:
            outside.append(pool.submit(random.random).result())
            inside.append((random.random(), random.randrange(1 << 30), random.sample(range(100), 3)))
    assert inside[0] == inside[1], "the seed decides, whatever other threads draw"
    assert outside[0] != outside[1]
