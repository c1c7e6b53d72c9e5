"""Options of typed columns, and the bytes of keys and values that they make of the columns of a DataFrame."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from odradek.sink.columns import InvalidRows
from odradek.spark.options import InvalidOptions
from odradek.spark.sink_options import SinkOptions, parse_sink
from odradek.spark.sink_values import TypedColumns
from odradek.testing.registry.server import SchemaRegistry
from pyspark.sql.types import DayTimeIntervalType, IntegerType, LongType, StringType, StructField, StructType

REQUIRED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "cents", "type": ["null", "int"]}],
}
KIND = StructType([StructField("id", LongType()), StructField("cents", IntegerType())])
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def registry(sockets: None) -> Iterator[str]:
    with SchemaRegistry() as server:
        client = SchemaRegistryClient({"url": server.url})
        client.register_schema("orders-value", Schema(json.dumps(ORDER), "AVRO"))
        client.register_schema("ids", Schema('"long"', "AVRO"))
        yield server.url


def options(**given: str) -> SinkOptions:
    return parse_sink(REQUIRED | given)


def test_columns_are_the_fields_of_values_and_keys_have_a_subject_of_their_own(registry: str) -> None:
    avro = options(valueFormat="avro", keyFormat="avro", keySubject="ids", schemaRegistry=registry)
    schema = StructType([StructField("key", LongType()), *KIND, StructField("topic", StringType())])
    typed: TypedColumns = pickle.loads(pickle.dumps(TypedColumns.of(avro, schema)))
    rows = {"key": pa.array([7, None]), "id": pa.array([1, 2]), "cents": pa.array([5, None], pa.int32())}
    found = typed.encoded(pa.record_batch({**rows, "topic": pa.array(["a", "b"])}))
    read = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    assert sorted(found.schema.names) == ["key", "topic", "value"]
    assert [read(one, CONTEXT) for one in found.column("value").to_pylist()] == [
        {"id": 1, "cents": 5},
        {"id": 2, "cents": None},
    ]
    assert [one if one is None else read(one, CONTEXT) for one in found.column("key").to_pylist()] == [7, None]


def test_null_value_is_a_tombstone(registry: str) -> None:
    avro = options(valueFormat="avro", schemaRegistry=registry)
    typed = TypedColumns.of(avro, StructType([StructField("key", StringType()), StructField("value", KIND)]))
    values = pa.array([None, {"id": 1, "cents": 2}], pa.struct([("id", pa.int64()), ("cents", pa.int32())]))
    found = typed.encoded(pa.record_batch({"key": pa.array(["a", "b"]), "value": values}))
    assert [one is None for one in found.column("value").to_pylist()] == [True, False]
    assert found.column("key").to_pylist() == ["a", "b"]


def test_json_needs_no_registry() -> None:
    typed = TypedColumns.of(options(valueFormat="json"), KIND)
    found = typed.encoded(pa.record_batch({"id": pa.array([1]), "cents": pa.array([None], pa.int32())}))
    assert found.to_pylist() == [{"value": b'{"id":1}'}]


def test_columns_pass_as_they_are_without_a_format() -> None:
    batch = pa.record_batch({"value": pa.array(["a"])})
    assert TypedColumns.of(options(), StructType([StructField("value", StringType())])).encoded(batch) is batch


def test_value_that_does_not_fit_names_its_column(registry: str) -> None:
    typed = TypedColumns.of(options(valueFormat="avro", schemaRegistry=registry), KIND)
    batch = pa.record_batch({"id": pa.array([1, None]), "cents": pa.array([1, 1], pa.int32())})
    with pytest.raises(InvalidRows, match="a row of the column value does not fit its schema: id is null, not long"):
        typed.encoded(batch)


@pytest.mark.parametrize(
    ("given", "schema", "words"),
    [
        ({"valueFormat": "avro"}, StructType([StructField("id", StringType())]), "column value.id is string, .* long"),
        ({"valueFormat": "protobuf"}, KIND, "schema of the column value is AVRO, not PROTOBUF"),
        ({"valueFormat": "avro", "valueSubject": "none"}, KIND, "HTTP status 404"),
        ({"valueFormat": "avro", "keyFormat": "avro"}, KIND, "'keyFormat' needs a column 'key'"),
        (
            {"valueFormat": "json", "valueSubject": "ids"},
            StructType([StructField("value", StringType())]),
            "the column 'value' is string, which is written as it is",
        ),
        (
            {"valueFormat": "avro"},
            StructType([StructField("id", DayTimeIntervalType())]),
            "column value.id is duration",
        ),
    ],
)
def test_columns_are_checked_before_anything_is_written(
    registry: str, given: dict[str, str], schema: StructType, words: str
) -> None:
    with pytest.raises(InvalidOptions, match=words):
        TypedColumns.of(options(**given, schemaRegistry=registry), schema)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"valueFormat": "xml"}, "'valueFormat' takes json, avro, protobuf, not 'xml'"),
        ({"valueFormat": "avro"}, "'valueFormat' is avro, which needs the option 'schemaRegistry'"),
        ({"keyFormat": "protobuf"}, "'keyFormat' is protobuf, which needs"),
        ({"schemaRegistry": "http://127.0.0.1:1"}, "'schemaRegistry' belongs to 'valueFormat' or 'keyFormat'"),
        ({"schemaRegistry": "127.0.0.1:1", "valueFormat": "avro"}, "'schemaRegistry' takes a URL"),
        ({"schemaRegistry": "http://a:1", "valueFormat": "avro", "topic": ""}, "'valueSubject' must name the schema"),
    ],
)
def test_options_that_contradict_each_other_are_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptions, match=words):
        options(**given)


def test_password_of_the_registry_is_not_shown() -> None:
    found = options(valueFormat="json", schemaRegistry="http://127.0.0.1:1", schemaRegistryUserInfo="me:secret")
    assert found.registry is not None and found.registry.user_info == "me:secret"
    assert "secret" not in repr(found)
