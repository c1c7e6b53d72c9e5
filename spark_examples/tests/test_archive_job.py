"""`odradek archive --spark`: tasks of Spark write the files of Iceberg tables, the driver commits them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, Schema, SchemaRegistryClient, ServerConfig
from google.protobuf.message_factory import GetMessageClass
from odradek.archive import (
    ArchiveError,
    ArchiveOptions,
    Archiver,
    IcebergSource,
    IcebergTable,
    Owner,
    open_catalog,
    spark_tasks,
)
from odradek.columns import INFER, Split, ValueSchema
from odradek.columns.cluster import Cluster
from odradek.records.protobuf_decoding import message_of_schema
from odradek.records.schema_registry import SchemaRegistry
from pyspark.sql import SparkSession
from topics import ensure_topic


def write(broker: odradek.Broker, topic: str, partition: int, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, b"k", partition)
    assert producer.flush(30) == 0


def archive(spark: SparkSession, broker: odradek.Broker, folder: Path, topic: str, **options: Any) -> Any:
    (done,) = Archiver(
        {"bootstrap.servers": broker.bootstrap_servers}, [topic],
        lambda name: IcebergTable(open_catalog(folder, {}), name, lock_folder=folder),
        ArchiveOptions(**options), open_archive=spark_tasks.opener(spark),
    ).run(once=True)  # fmt: skip
    return done


def rows(folder: Path, table: str, partition: int) -> list[dict[str, Any]]:
    found = IcebergSource(open_catalog(folder, {}), f"kafka.{table}").read(partition, 0, 1 << 40)
    return found.sort_by("offset").select(["offset", "value"]).to_pylist()


def test_tasks_write_tables_whose_columns_grow_with_the_values(
    spark: SparkSession, odradek_broker: odradek.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_tasks, "SPLIT_BYTES", 4_000)
    topic = "archive_job"
    ensure_topic(odradek_broker.bootstrap_servers, topic, 2)
    write(odradek_broker, topic, 0, [b'{"id": %d}' % one for one in range(300)])
    write(odradek_broker, topic, 1, [b'{"id": %d, "note": "n"}' % one for one in range(300)] + [b"broken"])
    done = archive(spark, odradek_broker, tmp_path, topic, values=ValueSchema("json", INFER))
    assert (done.rows, done.dead_letter_records) == (600, 1)
    write(odradek_broker, topic, 0, [b'{"id": 300, "more": {"a": 1.5}}', b'{"id": "many"}'])
    # Both are within the sample: the table is made anew with the type that all values have.
    again = archive(spark, odradek_broker, tmp_path, topic, values=ValueSchema("json", INFER))
    assert (again.rows, again.dead_letter_records, again.commits) == (602, 1, 1)

    expected = [{"offset": one, "value": {"id": str(one), "note": None, "more": None}} for one in range(300)]
    expected.append({"offset": 300, "value": {"id": "300", "note": None, "more": {"a": 1.5}}})
    expected.append({"offset": 301, "value": {"id": "many", "note": None, "more": None}})
    assert rows(tmp_path, topic, 0) == expected
    assert [row["value"]["note"] for row in rows(tmp_path, topic, 1)] == ["n"] * 300
    dead = [one for partition in (0, 1) for one in rows(tmp_path, f"{topic}_dead_letters", partition)]
    assert dead == [{"offset": 300, "value": b"broken"}]
    assert archive(spark, odradek_broker, tmp_path, topic, values=ValueSchema("json", INFER)).commits == 0


@pytest.fixture
def registry_broker(tmp_path: Path) -> Iterator[odradek.Broker]:
    with odradek.Broker(data_dir=tmp_path / "broker", schema_registry=True) as broker:
        SchemaRegistryClient({"url": broker.schema_registry_url}).set_config(
            config=ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)
        )
        yield broker


def messages(broker: odradek.Broker, topic: str, fields: str, made: list[dict[str, Any]]) -> list[bytes]:
    """Protobuf values with a schema of the registry."""
    registry = SchemaRegistryClient({"url": broker.schema_registry_url})
    text = f'syntax = "proto3"; message Order {{ {fields} }}'
    schema_id = registry.register_schema(f"{topic}-value", Schema(text, "PROTOBUF"))
    message = GetMessageClass(message_of_schema(SchemaRegistry(broker.schema_registry_url).schema(schema_id), None))
    return [b"\0" + struct.pack(">i", schema_id) + b"\0" + message(**one).SerializeToString() for one in made]


def test_protobuf_values_of_two_schemas_are_rows_of_the_source_and_of_the_table(
    spark: SparkSession, registry_broker: odradek.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_tasks, "SPLIT_BYTES", 4_000)
    broker, topic = registry_broker, "archive_protobuf"
    named = ValueSchema("protobuf", registry=broker.schema_registry_url)
    ensure_topic(broker.bootstrap_servers, topic, 2)
    old = "int32 id = 1; uint64 cents = 2;"
    new = "message Line { string product = 1; } int64 id = 1; repeated Line lines = 3;"
    first = [{"id": one, "cents": 2**64 - 1 - one} for one in range(200)]
    second = [{"id": (1 << 40) + one, "lines": [{"product": "mug"}]} for one in range(200)]
    write(broker, topic, 0, messages(broker, topic, old, first))
    done = archive(spark, broker, tmp_path, topic, values=named)
    assert (done.rows, done.dead_letter_records) == (200, 0)
    write(broker, topic, 1, [*messages(broker, topic, new, second), b"unframed"])
    done = archive(spark, broker, tmp_path, topic, values=named)
    assert (done.rows, done.dead_letter_records) == (200, 1)
    assert [row["value"] for row in rows(tmp_path, topic, 0)] == [{**one, "lines": None} for one in first]
    assert [row["value"] for row in rows(tmp_path, topic, 1)] == [{**one, "cents": None} for one in second]

    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "valueFormat": "protobuf"}
    source = spark.read.format("odradek").options(**given, schemaRegistry=broker.schema_registry_url)
    fields = "id: bigint, cents: decimal(20,0), lines: array<struct<product: string>>"
    frame = source.schema(f"partition int, offset bigint, value struct<{fields}>").load()
    found = frame.orderBy("partition", "offset").collect()
    # The newest schema of the registry has no cents.
    expected = [(one["id"], None, [] if "cents" in one else [("mug",)]) for one in [*first, *second]]
    got = [
        row.value and (row.value.id, row.value.cents, [tuple(one) for one in row.value.lines or ()]) for row in found
    ]
    assert got == [*expected, None]


def test_an_error_of_a_task_is_one_line_and_leaves_no_file(
    spark: SparkSession, odradek_broker: odradek.Broker, tmp_path: Path
) -> None:
    topic = "archive_failing"
    ensure_topic(odradek_broker.bootstrap_servers, topic, 2)
    write(odradek_broker, topic, 0, [b"v"] * 50)
    write(odradek_broker, topic, 1, [json.dumps({"id": 1}).encode()])
    schema = tmp_path / "gone.avsc"
    schema.write_text('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')
    table = IcebergTable(open_catalog(tmp_path, {}), Owner(topic))
    made = spark_tasks.SparkTopicArchive(spark, topic, table, ArchiveOptions(values=ValueSchema("avro", schema)))
    schema.unlink()
    with (
        Cluster({"bootstrap.servers": odradek_broker.bootstrap_servers}) as cluster,
        pytest.raises(ArchiveError, match=r"the job of Spark failed: .*gone\.avsc") as failure,
    ):
        made.advance(cluster)
    assert "\n" not in str(failure.value)
    assert not list(tmp_path.rglob("*.parquet"))


def test_turns_take_the_first_splits_of_each_partition_without_a_gap() -> None:
    splits = [Split("t", partition, first, first + 10) for partition in (0, 1) for first in (0, 10, 20)]
    assert [(one.partition, one.first_offset) for one in spark_tasks.in_turn(splits, 4)] == [
        (0, 0), (1, 0), (0, 10), (1, 10),
    ]  # fmt: skip
    assert spark_tasks.in_turn([], 4) == []
