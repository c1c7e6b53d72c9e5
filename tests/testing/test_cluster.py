"""Clusters in one process: brokers replicate, crash, return, and lose their links and their leadership."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import odradek
import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer
from odradek.server.access.authorization.authorization import STANDARD_CLASS as AUTHORIZER
from odradek.storage.directory import CLEAN_SHUTDOWN_FILE
from odradek.storage.files.clean_replicas import CLEAN_REPLICAS_FILE
from odradek.testing.leadership import leader_of

pytestmark = pytest.mark.usefixtures("sockets")

DEADLINE_S = 60


@pytest.fixture(scope="module")
def running() -> Iterator[odradek.Cluster]:
    with odradek.Cluster(brokers=3) as started:
        yield started


@pytest.fixture
def cluster(running: odradek.Cluster) -> odradek.Cluster:
    running.reset()
    return running


@pytest.fixture
def producer(cluster: odradek.Cluster) -> Iterator[KafkaProducer]:
    made = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        acks="all",
        request_timeout_ms=5000,
        delivery_timeout_ms=60_000,
        retry_backoff_ms=50,
    )
    yield made
    made.close(timeout=1)


def offset_of(producer: KafkaProducer, value: bytes) -> int:
    offset: int = producer.send("orders", value).get(timeout=DEADLINE_S).offset
    return offset


def in_sync(cluster: odradek.Cluster, topic: str = "orders") -> set[int]:
    image = cluster.servers[cluster.broker_ids[0]].node.metadata.image.topic(topic)
    assert image is not None
    return set(image.partitions[0].isr)


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def wait_until_in_sync(cluster: odradek.Cluster) -> None:
    wait_until(lambda: in_sync(cluster) == set(cluster.broker_ids))


def test_a_record_is_on_every_broker(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    assert offset_of(producer, b"order 1") == 0
    for server in cluster.servers.values():
        hosted = server.partitions.hosted.get(("orders", 0))
        assert hosted is not None and hosted.log.log_end_offset == 1


def test_a_killed_leader_is_replaced_and_comes_back(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    offset_of(producer, b"order 1")
    dead = cluster.leader("orders")
    cluster.kill(dead)
    assert dead not in cluster.broker_ids and cluster.leader("orders") != dead
    assert offset_of(producer, b"order 2") == 1
    cluster.restart(dead)
    wait_until_in_sync(cluster)
    cluster.move_leader("orders", to=dead)
    assert cluster.leader("orders") == dead
    assert offset_of(producer, b"order 3") == 2


def test_an_isolated_leader_is_replaced(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    offset_of(producer, b"order 1")
    alone = next(iter(cluster.servers))
    cluster.move_leader("orders", to=alone)
    others = [server for node_id, server in cluster.servers.items() if node_id != alone]
    with cluster.isolate(alone) as isolation:
        wait_until(lambda: all(leader_of(server, "orders", 0) != alone for server in others))
        assert isolation.count > 0
        assert leader_of(cluster.servers[alone], "orders", 0) == alone, "it does not hear of it"
        assert cluster.leader("orders") != alone, "the newest metadata counts"
    wait_until_in_sync(cluster)
    assert offset_of(producer, b"order 2") == 1


def test_faults_strike_one_broker_of_the_cluster(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    offset_of(producer, b"order 1")
    leader = cluster.leader("orders")
    elsewhere = cluster.faults.fail("Produce", error="REQUEST_TIMED_OUT", node_id=leader % 3 + 1)
    here = cluster.faults.fail("Produce", error="REQUEST_TIMED_OUT", node_id=leader, times=2)
    assert offset_of(producer, b"order 2") == 1
    assert (elsewhere.count, here.count) == (0, 2)


def test_a_leader_moves_only_to_a_replica_in_sync(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    offset_of(producer, b"order 1")
    with pytest.raises(ValueError, match="broker 9 is not in the ISR"):
        cluster.move_leader("orders", to=9)
    with pytest.raises(KeyError, match="no partition nothing-0"):
        cluster.move_leader("nothing", to=1)


def test_time_passes_for_all_brokers_and_none_is_fenced(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    offset_of(producer, b"old")
    cluster.clock.advance(days=8)
    assert in_sync(cluster) == {1, 2, 3}
    assert offset_of(producer, b"new") == 1
    hosted = cluster.servers[cluster.leader("orders")].partitions.hosted.get(("orders", 0))
    assert hosted is not None and hosted.log.log_start_offset == 1


def test_reset_brings_killed_brokers_back(cluster: odradek.Cluster, producer: KafkaProducer) -> None:
    offset_of(producer, b"order 1")
    cluster.kill(3)
    with pytest.raises(KeyError, match="broker 3 does not run"):
        cluster.kill(3)
    cluster.reset()
    assert cluster.broker_ids == [1, 2, 3]
    assert all(server.node.metadata.image.topic("orders") is None for server in cluster.servers.values())


async def test_a_cluster_shares_the_loop_of_its_user(tmp_path: Path) -> None:
    async with odradek.Cluster(brokers=3, data_dir=tmp_path) as cluster:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        await producer.start()
        assert (await producer.send_and_wait("orders", b"order 1")).offset == 0
        await cluster.kill(cluster.leader("orders"))
        assert (await producer.send_and_wait("orders", b"order 2")).offset == 1
        await producer.stop()
    async with odradek.Cluster(brokers=3, data_dir=tmp_path) as again:
        leader = again.servers[again.leader("orders")].partitions.hosted.get(("orders", 0))
        assert leader is not None and leader.log.log_end_offset == 2


@pytest.mark.parametrize("brokers", [1, 2, 4])
def test_clusters_of_other_sizes_serve(brokers: int) -> None:
    with odradek.Cluster(brokers=brokers) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        assert offset_of(producer, b"order 1") == 0
        assert len(in_sync(cluster)) == min(3, brokers)
        producer.close()


def test_impossible_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 50 brokers"):
        odradek.Cluster(brokers=0)
    with pytest.raises(odradek.InvalidConfig, match=r"node\.id: each broker of a cluster has its own"):
        odradek.Cluster(config={"node.id": 1}).start()
    with pytest.raises(RuntimeError, match="this cluster is not running"):
        odradek.Cluster().kill(1)


@pytest.mark.parametrize(
    ("given", "security", "named"),
    [
        ({}, None, "User:ANONYMOUS"),
        ({"super.users": "User:admin"}, None, "User:ANONYMOUS"),
        ({}, "scram", "User:odradek-node"),
        ({"super.users": "User:admin"}, odradek.Security(authorizer=True), "User:odradek-node"),
    ],
)
def test_authorizer_that_denies_the_brokers_is_refused_with_the_missing_super_user(
    given: dict[str, str], security: str | odradek.Security | None, named: str
) -> None:
    config = {"authorizer.class.name": AUTHORIZER, **given}
    with pytest.raises(odradek.InvalidConfig, match=f"add {named} to super.users"):
        odradek.Cluster(brokers=2, config=config, security=security).start()


@pytest.mark.parametrize("given", [{"super.users": "User:ANONYMOUS"}, {"allow.everyone.if.no.acl.found": "true"}])
def test_authorizer_that_allows_the_brokers_serves(given: dict[str, str]) -> None:
    with odradek.Cluster(brokers=2, config={"authorizer.class.name": AUTHORIZER, **given}) as cluster:
        assert cluster.broker_ids == [1, 2]


def test_killed_broker_leaves_no_mark_of_a_clean_shutdown_and_a_stopped_one_does(tmp_path: Path) -> None:
    marks = [tmp_path / CLEAN_SHUTDOWN_FILE, tmp_path / CLEAN_REPLICAS_FILE]
    with odradek.Broker(data_dir=tmp_path) as broker:
        broker.topic("orders").send(b"order 1")
        broker.kill()
        assert not any(mark.exists() for mark in marks)
        broker.restart()
        assert not broker.server.node.directories[0].had_clean_shutdown
        assert [record.value for record in broker.topic("orders").records()] == [b"order 1"]
    assert all(mark.exists() for mark in marks)
    with odradek.Broker(data_dir=tmp_path) as broker:
        assert broker.server.node.directories[0].had_clean_shutdown


def test_a_broker_that_was_killed_starts_again_on_its_port_with_its_data(broker: odradek.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=20)
    assert offset_of(producer, b"order 1") == 0
    address = broker.bootstrap_servers
    broker.kill()
    with pytest.raises(RuntimeError, match="was killed"):
        broker.server.node_id  # noqa: B018
    broker.restart()
    assert broker.bootstrap_servers == address
    assert offset_of(producer, b"order 2") == 1
    producer.close()
