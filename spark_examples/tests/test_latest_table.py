"""odradek.spark.latest: merges of a compacted topic into an Iceberg table, the latest record of each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from odradek.spark.latest import LatestTable
from odradek.spark.options import InvalidOptions
from odradek.spark.planning import DataLoss
from pyspark.sql import SparkSession
from topics import ensure_topic


class Customers:
    """A compacted topic, its table, and the rows that the table must have."""

    def __init__(self, spark: SparkSession, broker: odradek.Broker, name: str) -> None:
        self.topic = name
        self._broker = broker
        self._spark = spark
        self._expected: dict[bytes, tuple[str, int]] = {}
        self._ends = [0, 0]
        ensure_topic(broker.bootstrap_servers, name, 2, {"cleanup.policy": "compact"})
        spark.sql("CREATE NAMESPACE IF NOT EXISTS odradek.latest")
        self.table = f"odradek.latest.{name}"

    def open(self, **options: str) -> LatestTable:
        given = {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "subscribe": self.topic,
            "valueFormat": "json",
        }
        return LatestTable(self._spark, self.table, given | options, value_type="struct<name: string>")

    def write(self, records: Mapping[bytes, str | None]) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers, "linger.ms": 5})
        for key, name in records.items():
            partition = key[-1] % 2
            producer.produce(self.topic, None if name is None else b'{"name": "%s"}' % name.encode(), key, partition)
            if name is None:
                self._expected.pop(key, None)
            else:
                self._expected[key] = name, self._ends[partition]
            self._ends[partition] += 1
        assert producer.flush(30) == 0

    def check(self) -> None:
        rows = self._spark.newSession().sql(f"SELECT key, value.name, partition, offset FROM {self.table}").collect()
        assert {bytes(row.key): (row.name, row.offset) for row in rows} == self._expected
        assert len(rows) == len(self._expected)


def test_a_table_has_the_latest_value_of_each_key_and_tombstones_delete(
    spark: SparkSession, odradek_broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    customers = Customers(spark, odradek_broker, "customers")
    customers.write({b"k%d" % one: f"first {one}" for one in range(60)} | {b"never": None})
    customers.write({b"k%d" % one: f"second {one}" for one in range(0, 60, 3)} | {b"k1": None})
    table = customers.open()
    assert table.merge() == 82
    customers.check()

    customers.write({b"k2": None, b"k3": "third", b"new": "new", b"k1": "again"})
    # A driver that ends after its merge: the next one merges nothing again.
    assert customers.open().merge() == 4
    customers.check()
    assert customers.open().merge() == 0
    # Without the offsets (another program expired the snapshot that had them) all is merged again, with the same result.
    monkeypatch.setattr(LatestTable, "_merged", lambda self: {})
    assert customers.open().merge() == 86
    customers.check()


def test_values_that_do_not_decode_are_no_tombstones(spark: SparkSession, odradek_broker: odradek.Broker) -> None:
    customers = Customers(spark, odradek_broker, "misfits")
    customers.write({b"a": "one", b"b": "two"})
    customers.open().merge()
    producer = Producer({"bootstrap.servers": odradek_broker.bootstrap_servers})
    producer.produce("misfits", b"no json", b"a", 1)
    assert producer.flush(30) == 0
    with pytest.raises(Exception, match="misfits-1: offset 1: the value does not decode"):
        customers.open().merge()
    customers.check()
    customers.open(mode="DROPMALFORMED").merge()
    customers.check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a,b"}, "of one topic"),
        ({"subscribe": "a", "startingOffsets": "earliest"}, "its own start and end"),
        ({"subscribe": "a", "mode": "PERMISSIVE"}, "would look like a tombstone"),
    ],
)
def test_options_that_do_not_fit_a_table_are_errors(spark: SparkSession, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptions, match=message):
        LatestTable(spark, "odradek.latest.none", {"kafka.bootstrap.servers": "127.0.0.1:1"} | options)


def test_a_topic_that_was_created_again_is_an_error(
    spark: SparkSession, odradek_broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    customers = Customers(spark, odradek_broker, "recreated")
    other: dict[str, Any] = {"topic": "recreated", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "offsets": {"0": 0, "1": 0}}
    monkeypatch.setattr(LatestTable, "_merged", lambda self: other)
    with pytest.raises(DataLoss, match="topic recreated was deleted and created again"):
        customers.open().merge()


def test_table_of_another_topic_or_cluster_is_left_alone(
    spark: SparkSession, odradek_broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = Customers(spark, odradek_broker, "owners")
    owners.write({b"a": "one"})
    owners.open().merge()
    other = Customers(spark, odradek_broker, "others")
    other.write({b"a": "two", b"b": "three"})
    other.table = owners.table
    with monkeypatch.context() as patch:
        patch.setattr(
            LatestTable, "_merged", lambda self: {}
        )  # another program has expired the snapshot with the offsets
        with pytest.raises(
            InvalidOptions, match="has the latest records of topic owners, not the latest records of topic others"
        ):
            other.open().merge()
    spark.sql(f"ALTER TABLE {owners.table} SET TBLPROPERTIES ('odradek.owner' = '{_OF_ANOTHER_CLUSTER}')")
    with pytest.raises(InvalidOptions, match="of cluster elsewhere, and this is cluster"):
        owners.open().merge()
    owners.check()


_OF_ANOTHER_CLUSTER = '{"topic":"owners","cluster_id":"elsewhere","topic_id":"","role":"latest records"}'
