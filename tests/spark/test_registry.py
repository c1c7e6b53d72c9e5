"""Avro and Protobuf values with a schema registry in format("odradek"): rows of Spark's schema, without a JVM."""

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
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from odradek.columns import SCHEMA
from odradek.records.protobuf_decoding import message_of_schema
from odradek.records.schema_registry import SchemaRegistry
from odradek.spark.options import InvalidOptions, parse
from odradek.spark.rows import Rows, check_schema, projected
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

VALUE = StructType().add("cents", LongType()).add("note", StringType()).add("gone", DoubleType())
REQUIRED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def scanned(values: list[bytes | None]) -> pa.RecordBatch:
    rows = [
        {
            "topic": "orders",
            "partition": 0,
            "offset": n,
            "timestamp": 0,
            "timestamp_type": 0,
            "value": one,
            "headers": [],
        }
        for n, one in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def test_avro_values_are_structs_with_the_fields_of_the_schema(sockets: None, tmp_path: Path) -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "cents", "type": "int"},
    ]
    with odradek.Broker(data_dir=tmp_path, schema_registry=True) as broker:
        registry = SchemaRegistryClient({"url": broker.schema_registry_url})
        serialize = AvroSerializer(registry, json.dumps({"type": "record", "name": "Order", "fields": fields}))
        where = SerializationContext("orders", MessageField.VALUE)
        values = [serialize({"id": n, "note": None if n else "first", "cents": 5 * n}, where) for n in range(3)]
        options = parse(REQUIRED | {"valueFormat": "avro", "schemaRegistry": broker.schema_registry_url})
        schema = StructType().add("offset", LongType()).add("value", VALUE)
        check_schema(schema, options)
        rows = Rows(schema, options, "orders")
        batch = scanned([*values, b"no avro", None])
        found = rows.convert(batch.select(rows.scanned))
    assert found.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert found.column("value").to_pylist() == [
        {"cents": 0, "note": "first", "gone": None},
        {"cents": 5, "note": None, "gone": None},
        {"cents": 10, "note": None, "gone": None},
        None,
        None,
    ]


def test_avro_needs_a_registry_and_json_has_none() -> None:
    for given in ({"valueFormat": "avro"}, {"valueFormat": "json", "schemaRegistry": "http://127.0.0.1:1"}):
        with pytest.raises(InvalidOptions, match="'schemaRegistry' belongs to valueFormat avro and protobuf"):
            parse(REQUIRED | given)


def test_projected_structs_keep_nulls_and_nested_fields() -> None:
    values = pa.array([{"a": {"b": 1, "c": 2}, "d": "x"}, None, {"a": None, "d": "y"}])
    wanted = pa.struct([("d", pa.string()), ("a", pa.struct([("c", pa.int32())]))])
    assert projected(values, wanted).to_pylist() == [{"d": "x", "a": {"c": 2}}, None, {"d": "y", "a": None}]


PROTOBUF = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  enum Kind { NEW = 0; PAID = 1; }
  message Line { string product = 1; uint32 quantity = 2; google.protobuf.Timestamp packed = 3; }
  int64 id = 1;
  uint64 cents = 2;
  Kind kind = 3;
  Line first = 4;
  repeated Line lines = 5;
  map<string, int32> counts = 6;
  google.protobuf.Timestamp placed = 7;
  optional string note = 8;
}
"""
PLACED_S, PLACED_US = 1_700_000_000, 123_456


class Registered:
    """Protobuf values of the schema PROTOBUF in the registry of a broker."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._id = SchemaRegistryClient({"url": url}).register_schema("orders-value", Schema(PROTOBUF, "PROTOBUF"))
        newest = SchemaRegistry(url).latest("orders-value").schema
        self._class = GetMessageClass(message_of_schema(newest, None))

    def value(self, **fields: Any) -> bytes:
        made = self._class(**fields)
        return b"\0" + struct.pack(">i", self._id) + b"\0" + made.SerializeToString()

    def order(self, cents: int) -> bytes:
        stamp = {"seconds": PLACED_S, "nanos": PLACED_US * 1000 + 789}
        lines = [{"product": "mug", "quantity": 2**32 - 1, "packed": stamp}, {"product": "kettle"}]
        return self.value(id=1, cents=cents, kind=1, lines=lines, counts={"a": 3}, placed=stamp, note="n")

    def rows(self, kind: StructType, mode: str, values: list[bytes | None]) -> list[Any]:
        given = {"valueFormat": "protobuf", "schemaRegistry": self.url, "mode": mode}
        options = parse(REQUIRED | given)
        schema = StructType().add("value", kind).add("offset", LongType())
        check_schema(schema, options)
        rows = Rows(schema, options, "orders")
        return list(rows.convert(scanned(values).select(rows.scanned)).to_pylist())


@pytest.fixture(scope="module")
def registered(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registered]:
    with odradek.Broker(data_dir=tmp_path_factory.mktemp("broker"), schema_registry=True) as broker:
        yield Registered(broker.schema_registry_url)


def test_protobuf_values_are_structs_with_the_types_of_the_schema(sockets: None, registered: Registered) -> None:
    line = StructType().add("product", StringType()).add("quantity", LongType()).add("packed", TimestampType())
    kind = (
        StructType().add("id", LongType()).add("cents", DecimalType(20, 0)).add("kind", IntegerType())
        .add("first", line).add("lines", ArrayType(line)).add("counts", MapType(StringType(), IntegerType()))
        .add("placed", TimestampType()).add("note", StringType()).add("gone", DoubleType())
    )  # fmt: skip
    found = registered.rows(
        kind, "PERMISSIVE", [registered.order(2**64 - 1), registered.value(id=2), None, b"no frame"]
    )
    placed = datetime.fromtimestamp(PLACED_S, UTC).replace(microsecond=PLACED_US)
    assert [row["value"] for row in found] == [
        {
            "id": 1, "cents": 2**64 - 1, "kind": 1, "first": None, "counts": [("a", 3)], "placed": placed, "note": "n",
            "gone": None, "lines": [
                {"product": "mug", "quantity": 2**32 - 1, "packed": placed},
                {"product": "kettle", "quantity": 0, "packed": None},
            ],
        },
        {
            "id": 2, "cents": 0, "kind": 0, "first": None, "counts": [], "placed": None, "note": None, "gone": None,
            "lines": [],
        },
        None,
        None,
    ]  # fmt: skip


def test_values_that_do_not_fit_the_schema_follow_the_mode(sockets: None, registered: Registered) -> None:
    kind = StructType().add("cents", LongType())
    values = [registered.order(cents) for cents in (5, 2**63, 7)]
    found = registered.rows(kind, "PERMISSIVE", values)
    assert [row["value"] for row in found] == [{"cents": 5}, None, {"cents": 7}]
    found = registered.rows(kind, "DROPMALFORMED", values)
    assert [row["offset"] for row in found] == [0, 2]
    with pytest.raises(InvalidOptions, match="orders-0: offset 1: the value does not decode: Integer value"):
        registered.rows(kind, "FAILFAST", values)


def test_a_type_that_no_value_can_have_is_an_error(sockets: None, registered: Registered) -> None:
    with pytest.raises(InvalidOptions, match=r"schema: value is struct<id: int64.* in the schema registry"):
        registered.rows(StructType().add("lines", StructType().add("id", LongType())), "PERMISSIVE", [])
