"""Full and slow disks: the faults act on a broker's writes, and the broker reacts as to a real disk."""

from __future__ import annotations

import time
from pathlib import Path

import odradek
import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError
from odradek.storage.files import write_checks

pytestmark = pytest.mark.usefixtures("sockets")


def test_full_disk_halts_a_broker_with_one_directory(broker: odradek.Broker) -> None:
    broker.topic("orders").send(b"order 1")
    full = broker.faults.disk_full(topic="orders")
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        retries=2,
        max_block_ms=30_000,
        request_timeout_ms=2000,
        delivery_timeout_ms=4000,
    )
    with pytest.raises(KafkaError):
        producer.send("orders", b"order 2").get(timeout=30)
    producer.close(timeout=1)
    assert full.count == 1 and list(full.struck) == ["append to orders-0"]
    with pytest.raises(RuntimeError, match="restart"):
        str(broker.server)
    full.cancel()
    broker.restart()
    assert broker.topic("orders").values() == [b"order 1"]
    broker.topic("orders").send(b"order 2")
    assert broker.topic("orders").values() == [b"order 1", b"order 2"]


def test_full_directory_takes_its_partitions_alone_offline(tmp_path: Path) -> None:
    with odradek.Broker(config={"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}) as broker:
        for topic in ("orders", "payments"):  # one topic in each directory
            broker.topic(topic).create()
        with (
            broker.faults.disk_full(topic="orders") as full,
            KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as patient,
            KafkaProducer(
                bootstrap_servers=broker.bootstrap_servers,
                enable_idempotence=False,
                request_timeout_ms=4000,
                delivery_timeout_ms=5000,
            ) as impatient,
        ):
            patient.send("payments", b"payment 1").get(timeout=60)
            with pytest.raises(KafkaError):
                impatient.send("orders", b"order 1").get(timeout=60)
            full.wait(timeout=60)
            patient.send("payments", b"payment 2").get(timeout=60)
        assert full.count == 1
        assert broker.topic("payments").values() == [b"payment 1", b"payment 2"]


def test_others_lead_when_a_disk_is_full(odradek_cluster: odradek.Cluster) -> None:
    cluster = odradek_cluster
    cluster.topic("orders").create()
    leader = cluster.leader("orders")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        producer.send("orders", b"order 1").get(timeout=60)
        full = cluster.faults.disk_full(node_id=leader, topic="orders")
        producer.send("orders", b"order 2").get(timeout=60)
    assert full.count == 1 and leader not in cluster.broker_ids
    assert [record.value for record in cluster.topic("orders").wait_for(records=2, timeout=60)] == [
        b"order 1",
        b"order 2",
    ]
    full.cancel()
    cluster.restart(leader)
    assert leader in cluster.broker_ids


def test_slow_disk_takes_its_time_for_appends_and_flushes(tmp_path: Path) -> None:
    with odradek.Broker(config={"log.flush.interval.messages": 1}) as broker:
        broker.topic("orders").create()
        with broker.faults.slow_disk(0.1, topic="orders") as slow:
            began = time.monotonic()
            with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("orders", b"order 1").get(timeout=30)
            assert time.monotonic() - began >= 0.2
        assert list(slow.struck)[:2] == ["append to orders-0", "flush to orders-0"]


def test_reset_starts_a_halted_broker_and_ends_the_fault(broker: odradek.Broker) -> None:
    broker.faults.disk_full(times=1)
    with pytest.raises(RuntimeError):
        broker.topic("orders").send(b"order 1")
    broker.reset()
    assert write_checks.active == ()
    broker.topic("orders").send(b"order 1")
    assert broker.topic("orders").values() == [b"order 1"]


def test_faults_of_disks_take_no_words_of_requests(broker: odradek.Broker) -> None:
    with pytest.raises(TypeError, match="client_id"):
        broker.faults.disk_full(client_id="checkout")  # type: ignore[call-arg]
    assert write_checks.active == () and len(broker.faults) == 0
