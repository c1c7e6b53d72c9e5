"""Spark's stock sink for Iceberg repeats rows where snapshots expire before the checkpoint is written; ours does not.

The sink finds out whether a batch is in the table by the ancestors of the current snapshot: each has the batch's number. A
driver that ends between the commit of the table and that of the checkpoint leaves the last number only there. Where a
maintenance job then rewrites the files and expires the older snapshots, the restarted query writes the batch again.
"""

from __future__ import annotations

from pathlib import Path

import odradek
from confluent_kafka import Producer
from odradek.archive import ArchiveOptions, Archiver, IcebergTable, open_catalog, spark_tasks
from pyspark.sql import SparkSession
from topics import ensure_topic

ROWS = 40


def fill(broker: odradek.Broker, topic: str) -> None:
    ensure_topic(broker.bootstrap_servers, topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for number in range(ROWS):
        producer.produce(topic, b"%d" % number, b"k", 0)
    assert producer.flush(30) == 0


def maintain(spark: SparkSession, table: str) -> None:
    """Runs a nightly maintenance: one file in place of the others, and no snapshot but the current one."""
    spark.sql(f"CALL odradek.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    spark.sql(
        f"CALL odradek.system.expire_snapshots(table => '{table}', older_than => current_timestamp(), retain_last => 1)"
    )
    assert spark.sql(f"SELECT * FROM odradek.{table}.snapshots").count() == 1


def test_the_stock_sink_repeats_a_batch_whose_snapshot_was_expired(
    spark: SparkSession, odradek_broker: odradek.Broker, tmp_path: Path
) -> None:
    fill(odradek_broker, "sunk")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS odradek.stock")
    spark.sql("CREATE TABLE odradek.stock.sunk (value binary, offset bigint) USING iceberg")
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", odradek_broker.bootstrap_servers)
    records = source.option("subscribe", "sunk").option("startingOffsets", "earliest").load()

    def run() -> int:
        sink = records.select("value", "offset").writeStream.format("iceberg")
        sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).toTable(
            "odradek.stock.sunk"
        ).awaitTermination(120)
        return spark.sql("REFRESH TABLE odradek.stock.sunk") and spark.table("odradek.stock.sunk").count()

    def lose_last_commit() -> None:
        """Leaves the checkpoint of a driver that ended after the commit of the table."""
        last = max(
            (one for one in (tmp_path / "commits").iterdir() if one.name.isdigit()), key=lambda one: int(one.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    assert run() == ROWS
    lose_last_commit()
    assert run() == ROWS  # the snapshot has the batch's number
    lose_last_commit()
    maintain(spark, "stock.sunk")
    assert run() == 2 * ROWS


def test_an_archived_table_repeats_nothing_after_the_same_maintenance(
    spark: SparkSession, odradek_broker: odradek.Broker, warehouse: Path
) -> None:
    fill(odradek_broker, "kept")

    def run() -> int:
        client = {"bootstrap.servers": odradek_broker.bootstrap_servers}
        archiver = Archiver(
            client, ["kept"], lambda topic: IcebergTable(open_catalog(warehouse, {}), topic), ArchiveOptions(),
            open_archive=spark_tasks.opener(spark),
        )  # fmt: skip
        archiver.run(once=True)
        spark.sql("REFRESH TABLE odradek.kafka.kept")
        return spark.table("odradek.kafka.kept").count()

    assert run() == ROWS
    maintain(spark, "kafka.kept")
    assert run() == ROWS
