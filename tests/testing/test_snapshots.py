"""Snapshots of brokers: saved and restored."""

from __future__ import annotations

from pathlib import Path

import odradek
import pytest
from kafka import KafkaConsumer

pytestmark = pytest.mark.usefixtures("sockets")


def test_a_state_is_restored_with_records_and_groups(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("orders").send(*(b"%d" % number for number in range(100)))
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    )
    next(consumer)
    consumer.close()
    address, offsets = broker.bootstrap_servers, broker.group("billing").offsets
    assert offsets
    broker.save(tmp_path / "saved")
    broker.topic("orders").send(b"later")
    for _ in range(2):
        broker.restore(tmp_path / "saved")
        assert len(broker.topic("orders").wait_for(records=100)) == 100
        broker.group("billing").wait_for(lag=100 - offsets["orders", 0])
        assert broker.group("billing").offsets == offsets
        broker.reset()
    assert broker.bootstrap_servers == address


def test_a_snapshot_goes_to_another_broker_and_is_written_anew(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("orders").send(b"old")
    broker.save(tmp_path / "saved")
    broker.topic("orders").send(b"new")
    broker.save(tmp_path / "saved")
    with odradek.Broker() as other:
        other.restore(tmp_path / "saved")
        assert other.topic("orders").values() == [b"old", b"new"]


def test_a_cluster_is_restored(tmp_path: Path) -> None:
    with odradek.Cluster(brokers=3) as cluster:
        cluster.topic("orders").create(partitions=3)
        for partition in range(3):
            cluster.topic("orders").send(b"%d" % partition, partition=partition)
        cluster.save(tmp_path / "saved")
        cluster.reset()
        cluster.kill(2)
        cluster.restore(tmp_path / "saved")
        assert [record.value for record in cluster.topic("orders").wait_for(records=3)] == [b"0", b"1", b"2"]


def test_invalid_snapshot_is_refused_before_any_change(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("orders").send(b"1")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError, match="other files"):
        broker.save(tmp_path)
    with pytest.raises(ValueError, match="is not a snapshot"):
        broker.restore(tmp_path)
    broker.save(tmp_path / "saved")
    with (
        odradek.Cluster(brokers=2) as cluster,
        pytest.raises(ValueError, match=r"brokers \[1\], and these are \[1, 2\]"),
    ):
        cluster.restore(tmp_path / "saved")
    assert broker.topic("orders").values() == [b"1"]
