"""Typed columns become JSON, Avro and Protobuf, which confluent's deserializers and our scan read; misfits are named."""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from odradek.archive.conforming import conformed
from odradek.columns import ValueSchema
from odradek.columns.decoder import Decoder
from odradek.columns.misfit import Misfit
from odradek.columns.value_decoders import decoder_of
from odradek.columns.value_encoder import ValueEncoder
from odradek.records.protobuf_decoding import message_of_schema
from odradek.records.schema_registry import Schema as RegistrySchema
from odradek.records.schema_registry import SchemaRegistry
from odradek.testing.registry.server import SchemaRegistry as RegistryServer

UTC_US, LOCAL_US = pa.timestamp("us", "UTC"), pa.timestamp("us")
LINE = pa.struct([("product", pa.string()), ("count", pa.int32())])
_NUMBERS = itertools.count()
CONTEXT = SerializationContext("orders", MessageField.VALUE)


class Column(NamedTuple):
    """A column, its field in Avro (of a union with null), Protobuf and JSON Schema, and its values."""

    kind: pa.DataType
    avro: Any
    proto: str
    schema: dict[str, Any]
    values: st.SearchStrategy[Any]


def _avro(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical} | more


def _floats(width: Any) -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False, width=width)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_LINES = st.fixed_dictionaries(
    {"product": st.none() | _TEXT, "count": st.none() | st.integers(-(1 << 31), (1 << 31) - 1)}
)
_LINE_AVRO = {
    "type": "record", "name": "Line",
    "fields": [{"name": "product", "type": ["null", "string"]}, {"name": "count", "type": ["null", "int"]}],
}  # fmt: skip
COLUMNS = {
    "flag": Column(pa.bool_(), "boolean", "optional bool", {"type": "boolean"}, st.booleans()),
    "tiny": Column(pa.int8(), "int", "optional int32", {"type": "integer"}, st.integers(-128, 127)),
    "whole": Column(
        pa.int32(), "int", "optional sint32", {"type": "integer"}, st.integers(-(1 << 31), (1 << 31) - 1)
    ),
    "long": Column(pa.int64(), "long", "optional int64", {"type": "integer"}, st.integers(-(1 << 63), (1 << 63) - 1)),
    "small": Column(pa.float32(), "float", "optional float", {"type": "number"}, _floats(32)),
    "wide": Column(pa.float64(), "double", "optional double", {"type": "number"}, _floats(64)),
    "text": Column(pa.string(), "string", "optional string", {"type": "string"}, _TEXT),
    "bytes": Column(pa.binary(), "bytes", "optional bytes", {"type": "string"}, st.binary(max_size=9)),
    "moment": Column(
        UTC_US, _avro("long", "timestamp-micros"), "google.protobuf.Timestamp", {"type": "string"},
        st.datetimes(timezones=st.just(datetime.UTC)),
    ),
    "lines": Column(
        pa.list_(LINE), {"type": "array", "items": _LINE_AVRO}, "repeated Line", {"type": "array"},
        st.lists(_LINES, max_size=3),
    ),
    "line": Column(LINE, "Line", "Line", {"type": "object"}, _LINES),
    "counts": Column(
        pa.map_(pa.string(), pa.int64()), {"type": "map", "values": "long"}, "map<string, int64>", {"type": "object"},
        st.dictionaries(_TEXT, st.integers(-5, 5), max_size=3).map(lambda one: list(one.items())),
    ),
}  # fmt: skip
#: Types that Protobuf has not.
WITHOUT_PROTOBUF = {
    "amount": Column(
        pa.decimal128(20, 4), _avro("bytes", "decimal", precision=20, scale=4), "", {"type": "number"},
        st.integers(-(10**19), 10**19).map(lambda one: Decimal(one).scaleb(-4)),
    ),
    "day": Column(pa.date32(), _avro("int", "date"), "", {"type": "string"}, st.dates()),
    "local": Column(LOCAL_US, _avro("long", "local-timestamp-micros"), "", {"type": "string"}, st.datetimes()),
    "clock": Column(pa.time64("us"), _avro("long", "time-micros"), "", {"type": "string"}, st.times()),
}  # fmt: skip
#: Columns whose types a scan does not make of JSON.
NOT_SCANNED = ("bytes", "counts", "clock")
PROTO = 'syntax = "proto3"; import "google/protobuf/timestamp.proto";\nmessage Order {\n' + "".join(
    f"  {column.proto} {name} = {number};\n" for number, (name, column) in enumerate(COLUMNS.items(), 1)
) + "}\nmessage Line { optional string product = 1; optional int32 count = 2; }\n"  # fmt: skip


def columns_of(form: str) -> dict[str, Column]:
    return COLUMNS if form == "protobuf" else COLUMNS | WITHOUT_PROTOBUF


def kind_of(form: str) -> pa.StructType:
    return pa.struct([(name, column.kind) for name, column in columns_of(form).items()])


def rows_of(form: str) -> st.SearchStrategy[list[dict[str, Any] | None]]:
    fields = {name: st.none() | column.values for name, column in columns_of(form).items()}
    return st.lists(st.none() | st.fixed_dictionaries(fields), min_size=1, max_size=4)


def schema_text(form: str) -> str:
    if form == "protobuf":
        return PROTO
    if form == "json":
        properties = {name: column.schema for name, column in columns_of(form).items()}
        return json.dumps({"type": "object", "properties": properties, "additionalProperties": False})
    fields = [{"name": name, "type": ["null", column.avro]} for name, column in columns_of(form).items()]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


class Registered(NamedTuple):
    url: str
    client: SchemaRegistryClient

    def encoder(self, form: str, text: str, subject: str) -> ValueEncoder:
        self.client.register_schema(subject, Schema(text, form.upper()))
        return ValueEncoder(form, "value", SchemaRegistry(self.url).latest(subject))


@pytest.fixture(scope="module")
def registry(sockets: None) -> Iterator[Registered]:
    with RegistryServer() as server:
        yield Registered(server.url, SchemaRegistryClient({"url": server.url}))


@pytest.fixture(scope="module")
def encoders(registry: Registered) -> dict[str, ValueEncoder]:
    made = {form: registry.encoder(form, schema_text(form), f"{form}-value") for form in ("json", "avro", "protobuf")}
    for form, encoder in made.items():
        encoder.check(kind_of(form))
    return made


def _by_confluent(form: str, client: SchemaRegistryClient) -> Callable[[bytes], Any]:
    if form == "avro":
        avro = AvroDeserializer(client)
        return lambda value: avro(value, CONTEXT)
    if form == "json":
        texts = JSONDeserializer(schema_text("json"), schema_registry_client=client)
        return lambda value: _of_json(texts(value, CONTEXT))
    message = GetMessageClass(message_of_schema(RegistrySchema("PROTOBUF", PROTO), "Order"))
    messages = ProtobufDeserializer(message, {"use.deprecated.format": False})
    return lambda value: _of_message(messages(value, CONTEXT))


@pytest.fixture(scope="module")
def deserializers(encoders: dict[str, ValueEncoder], registry: Registered) -> dict[str, Callable[[bytes], Any]]:
    return {form: _by_confluent(form, registry.client) for form in encoders}


@pytest.fixture(scope="module")
def decoders(encoders: dict[str, ValueEncoder], registry: Registered) -> dict[str, Decoder]:
    """Those of a scan. JSON has the types of the rows, which its schema does not say."""
    kept = pa.schema([one for one in kind_of("json") if one.name not in NOT_SCANNED])
    schemas = {form: ValueSchema(form, registry=registry.url) for form in encoders} | {
        "json": ValueSchema("json", kept)
    }
    return {form: decoder_of(one, form, lambda: pa.array([], pa.binary()), "us") for form, one in schemas.items()}


def _of_message(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(COLUMNS)
    for name in COLUMNS:
        value = getattr(message, name)
        if name == "lines":
            found[name] = [_of_line(one) for one in value]
        elif name == "counts":
            found[name] = dict(value)
        elif message.HasField(name):
            found[name] = value.ToDatetime(datetime.UTC) if name == "moment" else value
            found[name] = _of_line(value) if name == "line" else found[name]
    return found


def _of_line(line: Any) -> dict[str, Any]:
    return {name: getattr(line, name) if line.HasField(name) else None for name in ("product", "count")}


_OF_JSON: dict[str, Callable[[Any], Any]] = {
    "bytes": base64.b64decode,
    "moment": datetime.datetime.fromisoformat,
    "local": datetime.datetime.fromisoformat,
    "day": datetime.date.fromisoformat,
    "clock": datetime.time.fromisoformat,
    "lines": lambda lines: [{"product": None, "count": None} | one for one in lines],
    "line": lambda line: {"product": None, "count": None} | line,
}


def _of_json(values: dict[str, Any]) -> dict[str, Any]:
    assert None not in values.values()
    found = {name: _OF_JSON.get(name, lambda value: value)(value) for name, value in values.items()}
    return dict.fromkeys(columns_of("json")) | found


def _wanted(form: str, rows: pa.Array) -> list[dict[str, Any] | None]:
    """Protobuf has no null in place of a list or a map."""
    found: list[dict[str, Any] | None] = rows.to_pylist(maps_as_pydicts="strict")
    for row in found if form == "protobuf" else []:
        if row is not None:
            row |= {"lines": row["lines"] or [], "counts": row["counts"] or {}}
    return found


@pytest.mark.parametrize("form", ["json", "avro", "protobuf"])
@given(data=st.data())
def test_deserializers_of_confluent_read_the_rows(
    encoders: dict[str, ValueEncoder],
    deserializers: dict[str, Callable[[bytes], Any]],
    form: str,
    data: st.DataObject,
) -> None:
    rows = pa.array(data.draw(rows_of(form)), kind_of(form))
    found = [None if one is None else deserializers[form](one) for one in encoders[form].encode(rows).to_pylist()]
    wanted = _wanted(form, rows)
    for row in wanted if form == "json" else []:
        if row is not None and row["amount"] is not None:
            row["amount"] = float(row["amount"])  # Python's reader of JSON has no decimals
    assert found == wanted


@pytest.mark.parametrize("form", ["json", "avro", "protobuf"])
@given(data=st.data())
def test_scan_reads_the_rows(
    encoders: dict[str, ValueEncoder], decoders: dict[str, Decoder], form: str, data: st.DataObject
) -> None:
    rows, encoder = pa.array(data.draw(rows_of(form)), kind_of(form)), encoders[form]
    if form == "json":
        encoder, kept = ValueEncoder("json", "value"), [one for one in rows.type if one.name not in NOT_SCANNED]
        columns = [rows.field(one.name) for one in kept]
        rows = pa.StructArray.from_arrays(columns, fields=kept, mask=rows.is_null())
    decoded = decoders[form].decode(encoder.encode(rows))
    assert not decoded.bad, decoded.reasons
    fitted = conformed(decoded.values, rows.type)
    assert not fitted.bad, fitted.bad
    found, wanted = fitted.values.to_pylist(maps_as_pydicts="strict"), _wanted(form, rows)
    for row in [one for one in (*found, *wanted) if one is not None and one.get("counts")]:
        row["counts"] = dict(sorted(row["counts"].items()))  # maps of Protobuf have no order
    assert repr(found) == repr(wanted)


ORDER = pa.struct([("id", pa.int64()), ("cents", pa.int32())])
AVRO_ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "cents", "type": ["null", "int"]}],
}


def _order(field: str, avro: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": field, "type": avro}]})


def _message(field: str) -> str:
    imports = "".join(f'import "google/protobuf/{name}.proto"; ' for name in ("duration", "struct", "timestamp"))
    return f'syntax = "proto3"; {imports}message Order {{ {field} = 1; }}'


@pytest.mark.parametrize(
    ("form", "text", "kind", "words"),
    [
        ("avro", json.dumps(AVRO_ORDER), pa.struct([("id", pa.string())]), "column value.id is string, and .* long"),
        ("avro", json.dumps(AVRO_ORDER), pa.struct([("cents", pa.int32())]), "no column value.id, .* has no default"),
        ("avro", json.dumps(AVRO_ORDER), pa.struct([*ORDER, ("tax", pa.int32())]), "no field for .* value.tax"),
        ("avro", json.dumps(AVRO_ORDER), pa.int64(), "column value is int64, and the schema has record"),
        ("avro", _order("x", "float"), pa.struct([("x", pa.float64())]), "value.x is double, and the schema has float"),
        ("avro", _order("x", "long"), pa.struct([("x", UTC_US)]), "value.x is timestamp.*, and the schema has long"),
        ("avro", _order("x", _avro("long", "timestamp-millis")), pa.struct([("x", pa.int64())]), "value.x is int64"),
        ("avro", _order("x", _avro("long", "timestamp-millis")), pa.struct([("x", LOCAL_US)]), "value.x is timestamp"),
        ("avro", _order("x", ["long", "string"]), pa.struct([("x", pa.int64())]), "value.x is a union of 2 types"),
        (
            "avro",
            _order("x", {"type": "array", "items": "int"}),
            pa.struct([("x", pa.list_(pa.string()))]),
            r"column value.x\[\] is string, and the schema has int",
        ),
        ("protobuf", _message("int64 id"), pa.struct([("id", pa.string())]), "value.id is string, .* int64"),
        ("protobuf", _message("int64 id"), pa.struct([("ident", pa.int64())]), "no field for the column value.ident"),
        ("protobuf", _message("double x"), pa.struct([("x", pa.int64())]), "value.x is int64, .* double"),
        ("protobuf", _message("google.protobuf.Duration x"), pa.struct([("x", pa.decimal128(21, 9))]), "cannot be"),
        ("protobuf", _message("google.protobuf.Struct x"), pa.struct([("x", pa.string())]), "value.x is a google"),
        ("protobuf", _message("google.protobuf.Timestamp x"), pa.struct([("x", LOCAL_US)]), "has a time zone"),
        ("protobuf", _message("repeated int32 x"), pa.struct([("x", pa.int32())]), "the schema has a repeated field"),
        ("protobuf", _message("map<string, int32> x"), pa.struct([("x", pa.int32())]), "the schema has a map"),
        ("protobuf", _message("int64 id"), pa.string(), "value is string, and the schema has the message Order"),
        ("json", '{"properties": {"x": {"type": "string"}}}', pa.struct([("x", pa.int32())]), "value.x is int32"),
        ("json", '{"required": ["y"]}', pa.struct([("x", pa.int32())]), "no column value.y, .* requires"),
        ("json", '{"properties": {}, "additionalProperties": false}', ORDER, "no property for the column value.id"),
    ],
)
def test_columns_that_do_not_fit_the_schema_are_refused_by_name(
    registry: Registered, form: str, text: str, kind: pa.DataType, words: str
) -> None:
    encoder = registry.encoder(form, text, f"refused-{next(_NUMBERS)}")
    with pytest.raises(Misfit, match=words):
        encoder.check(kind)


def test_schema_of_another_format_is_refused(registry: Registered) -> None:
    encoder = registry.encoder("avro", json.dumps(AVRO_ORDER), "other-value")
    with pytest.raises(Misfit, match="the registry's schema of the column value is AVRO, not JSON"):
        ValueEncoder("json", "value", encoder.registered).check(ORDER)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.struct([("x", pa.duration("us"))]), "value.x is duration"),
        (pa.struct([("x", pa.map_(pa.float64(), pa.int32()))]), "the keys of the column value.x are double"),
        (pa.struct([("x", pa.int32()), ("x", pa.int64())]), "the column value has the field 'x' 2 times"),
        (pa.list_(pa.timestamp("ns")), r"the column value\[\] is timestamp\[ns\]"),
    ],
)
def test_types_that_no_format_has_are_refused_by_name(kind: pa.DataType, words: str) -> None:
    with pytest.raises(Misfit, match=words):
        ValueEncoder("json", "value").check(kind)


@pytest.mark.parametrize(
    ("form", "field", "value", "kind", "words"),
    [
        ("json", "double", float("nan"), pa.float64(), "column value.x is nan, which JSON has not"),
        ("json", "", 1 << 60, LOCAL_US, "column value.x is not within the years 1 to 9999"),
        ("json", "", -720_000, pa.date32(), "column value.x is not within the years 1 to 9999"),
        ("avro", "int", 1 << 40, pa.int64(), "column value does not fit its schema: x is 1099511627776, not int"),
        ("avro", "long", None, pa.int64(), "x is null, not long"),
        ("avro", _avro("long", "timestamp-millis"), 1, UTC_US, "x is .*, not timestamp-millis, which would round it"),
        ("avro", "double", (1 << 53) + 1, pa.int64(), "x is 9007199254740993, not a double, which would round it"),
        (
            "avro", {"type": "enum", "name": "E", "symbols": ["A"]}, "B", pa.string(),
            'x is "B", not a symbol of E',
        ),
        ("protobuf", "int32 x", 1 << 40, pa.int64(), "column value does not fit its schema: .*x.*1099511627776"),
        ("protobuf", "uint64 x", -1, pa.int64(), "column value does not fit its schema: .*x"),
        ("protobuf", "repeated int32 x", [None], pa.list_(pa.int32()), "column value does not fit its schema: .*x"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused_by_name(
    registry: Registered, form: str, field: Any, value: Any, kind: pa.DataType, words: str
) -> None:
    encoder = ValueEncoder("json", "value")
    if form != "json":
        text = _message(field) if form == "protobuf" else _order("x", field)
        encoder = registry.encoder(form, text, f"values-{next(_NUMBERS)}")
    row = pa.array([{"x": value}], pa.struct([("x", kind)]))
    encoder.check(row.type)
    with pytest.raises(Misfit, match=words):
        encoder.encode(row)


def test_floats_that_are_no_numbers_are_avro_and_protobuf(registry: Registered) -> None:
    rows = pa.array(
        [{"x": one} for one in (float("nan"), float("inf"), float("-inf"))], pa.struct([("x", pa.float64())])
    )
    for form, text in (("avro", _order("x", "double")), ("protobuf", _message("double x"))):
        encoder = registry.encoder(form, text, f"floats-{form}")
        schema = ValueSchema(form, registry=registry.url, subject=f"floats-{form}")
        found = decoder_of(schema, "", lambda: rows).decode(encoder.encode(rows))
        assert repr(found.values.to_pylist()) == repr(rows.to_pylist())


def test_fields_without_a_column_have_the_default_of_the_schema(registry: Registered) -> None:
    fields = [*AVRO_ORDER["fields"], {"name": "currency", "type": "string", "default": "EUR"}]
    encoder = registry.encoder("avro", json.dumps(AVRO_ORDER | {"fields": fields}), "default-value")
    kind = pa.struct([("id", pa.int64())])
    encoder.check(kind)
    (value,) = encoder.encode(pa.array([{"id": 7}], kind)).to_pylist()
    assert AvroDeserializer(registry.client)(value, CONTEXT) == {"id": 7, "cents": None, "currency": "EUR"}


def test_encoder_of_a_plain_key_is_pickled_whole(registry: Registered) -> None:
    encoder = registry.encoder("avro", '"long"', "plain-key")
    encoder.check(pa.int64())
    keys = pickle.loads(pickle.dumps(encoder)).encode(pa.array([5, None, -1], pa.int64())).to_pylist()
    read = AvroDeserializer(registry.client)
    assert [None if key is None else read(key, CONTEXT) for key in keys] == [5, None, -1]
