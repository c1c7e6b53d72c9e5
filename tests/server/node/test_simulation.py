"""Brokers and aiokafka in simulated time: hours in an instant, reproducible by seed, with injected faults."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from odradek.testing.simulation import Deadlock, Node, Simulation

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
