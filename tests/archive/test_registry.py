"""Typed tables of Avro and Protobuf values: columns follow the registry's newest schema while the archiver runs."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import odradek
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, Schema, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from odradek.archive import ArchiveOptions
from odradek.archive.topic_archive import TopicArchive
from odradek.client.user_errors import UserError
from odradek.columns import ValueSchema
from odradek.columns.cluster import Cluster
from odradek.records.protobuf_decoding import message_of_schema
from odradek.records.schema_registry import SchemaRegistry

from tests.archive.harness.tables import open_table, source_of


class Orders:
    """A topic of a broker with a registry."""

    def __init__(self, broker: odradek.Broker) -> None:
        self.client = {"bootstrap.servers": broker.bootstrap_servers}
        self.url = broker.schema_registry_url
        self._registry = SchemaRegistryClient({"url": self.url})
        self._registry.set_config(config=ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))

    def send(self, schema: dict[str, Any], *values: dict[str, Any]) -> None:
        fields = [{"name": name, "type": kind} for name, kind in schema.items()]
        text = json.dumps({"type": "record", "name": "Order", "fields": fields})
        serialize = AvroSerializer(self._registry, text)
        where = SerializationContext("orders", MessageField.VALUE)
        self.send_bytes(*(serialize(one, where) for one in values))

    def send_protobuf(self, fields: str, *values: dict[str, Any]) -> None:
        text = f'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Order {{ {fields} }}'
        schema_id = self._registry.register_schema("orders-value", Schema(text, "PROTOBUF"))
        made = GetMessageClass(message_of_schema(SchemaRegistry(self.url).schema(schema_id), None))
        head = b"\0" + struct.pack(">i", schema_id) + b"\0"
        self.send_bytes(*(head + made(**one).SerializeToString() for one in values))

    def send_bytes(self, *values: bytes) -> None:
        producer = Producer(self.client)
        for value in values:
            producer.produce("orders", value, partition=0)
        assert producer.flush(30) == 0


@pytest.fixture
def orders(sockets: None, tmp_path: Path) -> Iterator[Orders]:
    with odradek.Broker(data_dir=tmp_path / "broker", schema_registry=True) as broker:
        yield Orders(broker)


def test_columns_follow_new_schemas_and_values_that_break_are_dead_letter_records(
    orders: Orders, tmp_path: Path
) -> None:
    orders.send({"id": "int", "gone": "string"}, {"id": 1, "gone": "x"})
    table = open_table("iceberg", tmp_path / "tables", "orders")
    archive = TopicArchive("orders", table, ArchiveOptions(ValueSchema("avro", registry=orders.url)))
    with Cluster(orders.client) as cluster:
        archive.advance(cluster)
        orders.send({"id": "long", "note": ["null", "string"]}, {"id": 1 << 40, "note": "n"})
        orders.send_bytes(b"unframed", b"\0\0\0\x7f\xff" + b"\x02")
        archive.advance(cluster)
        orders.send({"id": "string"}, {"id": "many"}, {"id": "7"})
        archive.advance(cluster)
        archive.advance(cluster)
    archive.close()
    source = source_of("iceberg", tmp_path / "tables", "orders")
    fields = [("id", pa.int64()), ("gone", pa.string()), ("note", pa.string())]
    assert source.schema.field("value").type == pa.struct(fields)
    rows = source.read(0, 0, 99).sort_by("offset")
    assert rows.column("offset").to_pylist() == [0, 1, 5]
    assert rows.column("value").to_pylist() == [
        {"id": 1, "gone": "x", "note": None}, {"id": 1 << 40, "gone": None, "note": "n"},
        {"id": 7, "gone": None, "note": None},
    ]  # fmt: skip
    dead = source_of("iceberg", tmp_path / "tables", "orders", dead_letters=True).read(0, 0, 99).sort_by("offset")
    assert dead.column("offset").to_pylist() == [2, 3, 4]
    reasons = dead.column("reason").to_pylist()
    assert "schema id is missing" in reasons[0] and "404" in reasons[1] and "many" in reasons[2]


@pytest.mark.usefixtures("processes")
def test_columns_follow_new_schemas_of_protobuf(orders: Orders, tmp_path: Path) -> None:
    orders.send_protobuf("int32 id = 1; uint64 cents = 2;", {"id": 1, "cents": 2**64 - 1})
    table = open_table("iceberg", tmp_path / "tables", "orders")
    archive = TopicArchive("orders", table, ArchiveOptions(ValueSchema("protobuf", registry=orders.url)))
    with Cluster(orders.client) as cluster:
        archive.advance(cluster)
        line = "message Line { string product = 1; }"
        more = f"{line} int64 id = 1; repeated Line lines = 3; google.protobuf.Timestamp at = 4;"
        stamp = {"seconds": 1_700_000_000, "nanos": 123_456_789}
        orders.send_protobuf(more, {"id": 1 << 40, "lines": [{"product": "mug"}], "at": stamp})
        orders.send_bytes(b"unframed", b"\0\0\0\x7f\xff\0")
        archive.advance(cluster)
    archive.close()
    rows = source_of("iceberg", tmp_path / "tables", "orders").read(0, 0, 99).sort_by("offset")
    moment = datetime.fromtimestamp(stamp["seconds"], UTC).replace(microsecond=123_456)
    assert rows.column("value").to_pylist() == [
        {"id": 1, "cents": 2**64 - 1, "lines": None, "at": None},
        {"id": 1 << 40, "cents": None, "lines": [{"product": "mug"}], "at": moment},
    ]
    dead = source_of("iceberg", tmp_path / "tables", "orders", dead_letters=True).read(0, 0, 99).sort_by("offset")
    reasons = dead.column("reason").to_pylist()
    assert dead.column("offset").to_pylist() == [2, 3]
    assert "schema id is missing" in reasons[0] and "404" in reasons[1]


def test_a_registry_that_does_not_respond_makes_no_dead_letter_record(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.send({"id": "int"}, {"id": 1})
    table = open_table("parquet", tmp_path / "tables", "orders")
    archive = TopicArchive("orders", table, ArchiveOptions(ValueSchema("avro", registry=orders.url)))
    with Cluster(orders.client) as cluster:
        archive.advance(cluster)
        orders.send({"id": "int", "note": "string"}, {"id": 2, "note": "n"})
        with monkeypatch.context() as patched:
            patched.setattr("odradek.records.schema_registry.opened", _no_response)
            with pytest.raises(UserError, match="no response from the schema registry"):
                archive.advance(cluster)
        archive.advance(cluster)
    archive.close()
    rows = source_of("parquet", tmp_path / "tables", "orders").read(0, 0, 99).sort_by("offset")
    assert rows.column("value").to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "n"}]
    assert archive.archived.dead_letter_records == 0


def _no_response(*given: Any, **named: Any) -> Any:
    raise OSError("connection refused")
