"""Avro values with a schema registry in format("odradek"): rows of Spark's schema by the names of fields, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import odradek
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from odradek.columns import SCHEMA
from odradek.spark.options import InvalidOptions, parse
from odradek.spark.rows import Rows, check_schema, projected
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

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
