"""Topics of each format with one wide record for each value of schema_types.py, and comparisons of what a reader has."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import fastavro
import odradek
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from google.protobuf.message_factory import GetMessageClass
from odradek.archive.column_types import storable
from odradek.archive.conforming import conformed
from odradek.columns import ValueSchema
from odradek.records.formats import Coding, Form
from odradek.records.protobuf_decoding import message_of_schema
from odradek.records.schema_registry import Schema as RegistrySchema

from tests.columns.harness.schema_types import AVRO, CASES, JSON, Case, Value, numbered, proto_text


def avro_field(case: Case) -> dict[str, Any]:
    branches = case.schema if isinstance(case.schema, list) else [case.schema]
    union = ["null", *(one for one in branches if one != "null")]
    return {"name": case.name, "type": union, "default": None}


def schema_text(form: str) -> str:
    if form == "protobuf":
        return proto_text()
    if form == "json":
        return json.dumps({"type": "object", "properties": {case.name: case.schema for case in JSON}})
    return json.dumps({"type": "record", "name": "Wide", "fields": [avro_field(case) for case in AVRO]})


def bodies(form: str) -> list[bytes]:
    rows = [(case, value) for _, case, value in numbered(form)]
    if form == "json":
        return [f'{{"{case.name}": {value.raw}}}'.encode() for case, value in rows]
    if form == "protobuf":
        wide = GetMessageClass(message_of_schema(RegistrySchema("PROTOBUF", proto_text()), "Wide"))
        return [b"\0" + wide_message(wide, case, value).SerializeToString(deterministic=True) for case, value in rows]
    schema = fastavro.parse_schema(json.loads(schema_text("avro")))
    made = []
    for case, value in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {case.name: value.raw})
        made.append(out.getvalue())
    return made


def wide_message(wide: Any, case: Case, value: Value) -> Any:
    made = wide()
    if isinstance(value.raw, dict) and case.schema.startswith("map<"):
        for key, one in value.raw.items():
            field = getattr(made, case.name)
            if isinstance(one, dict):
                field[key].CopyFrom(type(field[key])(**one))
            else:
                field[key] = one
        return made
    if value.raw is not None:
        made = wide(**{case.name: value.raw})
        if isinstance(value.raw, dict) and not value.raw:
            getattr(made, case.name).SetInParent()
    return made


class Written(NamedTuple):
    """A topic of a format, with the schema in a registry."""

    form: str
    values: list[bytes]
    client: str
    registry: str

    @property
    def schema(self) -> ValueSchema:
        return ValueSchema(self.form, registry=self.registry)

    @property
    def coding(self) -> Coding:
        return Coding(Form(self.form), None if self.form == "json" else self.registry)


def write_topics(broker: odradek.Broker) -> dict[str, Written]:
    """Registers the schema of each format, and writes a record for each value of its cases."""
    registry, url = SchemaRegistryClient({"url": broker.schema_registry_url}), broker.schema_registry_url
    made = {}
    for form in CASES:
        schema_id = registry.register_schema(f"{form}-value", Schema(schema_text(form), form.upper()))
        values = [b"\0" + schema_id.to_bytes(4, "big") + body for body in bodies(form)]
        send(broker.bootstrap_servers, form, values)
        made[form] = Written(form, values, broker.bootstrap_servers, url)
    return made


def send(client: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": client})
    for value in values:
        producer.produce(topic, value, b"k", 0)
    assert producer.flush(60) == 0


def read(client: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": client, "group.id": "types", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, 60)
    consumer.close()
    return [one.value() for one in found]


def in_us(kind: pa.DataType) -> pa.DataType:
    """The type of a table's timestamps, where a scan has nanoseconds."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(in_us(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, in_us(kind.item_type))
    return pa.struct([(one.name, in_us(one.type)) for one in kind]) if pa.types.is_struct(kind) else kind


def expected(case: Case, value: Value, *, in_table: bool = False) -> pa.Array:
    want, _ = value.wanted(in_table=in_table)
    if not in_table:
        return pa.array([want], case.column)
    return conformed(pa.array([want], in_us(case.column)), storable(case.column)).values


def plain(found: pa.Scalar) -> Any:
    """The value, with times as numbers, and floats as texts: NaN is NaN, and -0.0 is not 0.0."""
    if not found.is_valid:
        return None
    if isinstance(found, pa.StructScalar):
        return {name: plain(one) for name, one in found.items()}
    if isinstance(found, pa.MapScalar):
        return [tuple(map(plain, pair)) for pair in zip(*map(list, found.values.flatten()), strict=True)]
    if isinstance(found, pa.ListScalar):
        return [plain(one) for one in found]
    if pa.types.is_floating(found.type):
        return repr(found.as_py())
    return found.value if pa.types.is_temporal(found.type) else found.as_py()


def assert_same(found: pa.Array, wanted: pa.Array) -> None:
    """The same value, which the type of the wanted one has."""
    if pa.types.is_fixed_size_binary(wanted.type):  # DuckDB has bytes of any size
        found, wanted = found.cast(pa.binary()), wanted.cast(pa.binary())
    fitted = conformed(found, wanted.type)
    assert not fitted.bad, fitted.bad
    assert plain(fitted.values[0]) == plain(wanted[0])


def assert_cells(
    cells: Iterable[tuple[int, Case, Value]], rows: pa.Array, reasons: dict[int, str], *, in_table: bool = False
) -> None:
    """`rows`: the wide values by offset; null for those that have a reason."""
    failures = []
    for offset, case, value in cells:
        _, reason = value.wanted(in_table=in_table)
        try:
            if reason is None:
                assert offset not in reasons, reasons[offset]
                assert_same(
                    pa.concat_arrays([rows.slice(offset, 1).field(case.name)]), expected(case, value, in_table=in_table)
                )
            else:
                assert offset in reasons, rows[offset]
                assert re.search(reason, reasons[offset]), reasons[offset]
                assert case.name in reasons[offset], reasons[offset]
        except (AssertionError, pa.ArrowException) as error:
            failures.append(f"{case.name} {value.raw!r}: {type(error).__name__} {str(error)[:300]}")
    assert not failures, "\n".join(failures)
