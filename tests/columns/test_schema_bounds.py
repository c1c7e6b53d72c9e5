"""Generated values of Avro's and Protobuf's types: the column has the value, or the row has a reason with its field.

Every example has a second record, which does not change because of the first one.
"""

from __future__ import annotations

import io
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.columns import InvalidScan
from odradek.columns.avro_decoder import AvroDecoder
from odradek.columns.protobuf_decoder import ProtobufDecoder
from odradek.records.avro_input import AvroInput
from odradek.records.avro_marked import marked
from odradek.records.avro_reader import AvroReader
from odradek.records.avro_schemas import parsed_avro
from odradek.records.contents import json_of
from odradek.records.protobuf_decoding import message_of_file

from tests.harness.examples import examples

INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
#: Logical types with their units of a second; `date` has days.
STAMPS = {
    f"{local}timestamp-{unit}": parts
    for local in ("", "local-")
    for unit, parts in (("millis", 1000), ("micros", 1_000_000), ("nanos", 1_000_000_000))
}


def near(*bounds: int) -> st.SearchStrategy[int]:
    """Any integer of 64 bits, mostly around bounds."""
    return st.one_of(INT64, *(st.integers(-3, 3).map(lambda by, at=one: at + by) for one in bounds))  # type: ignore[misc]


def schema_of(kind: Any, name: str = "f") -> Any:
    fields = [{"name": name, "type": kind}, {"name": "id", "type": "int"}]
    return fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def avro_cell(kind: Any, value: Any, reader: Any = None, good: Any = None) -> tuple[pa.Scalar, str | None]:
    """The field `f` of a record by the column, or the reason. `good`: a value of another record, which decodes."""
    schema = schema_of(kind)
    if reader is None:
        decoder = AvroDecoder(schema, lambda data: (None, data))
    else:
        decoder = AvroDecoder(schema_of(reader), lambda data: (AvroReader(schema), data))
    rows = [written(schema, {"f": value, "id": 1})]
    if good is not None:
        rows.append(written(schema, {"f": good, "id": 2}))
    found = decoder.decode(pa.array([*rows, None], pa.binary()))
    assert not found.values[len(rows)].is_valid
    if good is not None:
        assert found.values[1]["id"].as_py() == 2
    assert found.bad in ([], [0])
    return found.values[0]["f"] if not found.bad else found.values[0], found.reasons[0] if found.bad else None


@pytest.mark.parametrize("logical", STAMPS)
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_avro_timestamp_is_its_number_or_a_reason(logical: str, data: st.DataObject) -> None:
    parts = STAMPS[logical]
    first, last = _FIRST_S * parts, (_LAST_S + 1) * parts - 1
    if parts == 1_000_000_000:
        first, last = -(1 << 63) + 2, (1 << 63) - 2
    number = data.draw(near(0, max(first, -(1 << 62)), min(last, 1 << 62)))
    number = max(-(1 << 63), min(number, (1 << 63) - 1))
    found, reason = avro_cell({"type": "long", "logicalType": logical}, number, good=0)
    if first <= number <= last:
        assert reason is None and found.value == number
    else:
        assert reason is not None and reason.startswith(f"f is {number}, and a {logical} has the years")


@given(INT32)
@settings(max_examples=examples(60), deadline=None)
def test_avro_date_is_its_number_or_a_reason(number: int) -> None:
    found, reason = avro_cell({"type": "int", "logicalType": "date"}, number, good=0)
    if _FIRST_S <= number * 86_400 <= _LAST_S:
        assert reason is None and found.value == number
    else:
        assert reason == f"f is {number}, and a date has the years 1 to 9999"


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_avro_decimal_of_any_precision_is_exact_or_a_reason(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 90))
    scale = data.draw(st.integers(0, precision))
    unscaled = data.draw(st.one_of(st.integers(-(10**precision), 10**precision), st.integers(-(10**95), 10**95)))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    kind: dict[str, Any] = {"logicalType": "decimal", "precision": precision, "scale": scale}
    kind |= {"type": "bytes"} if data.draw(st.booleans()) else {"type": "fixed", "name": "F", "size": 40}
    raw = unscaled.to_bytes(size if kind["type"] == "bytes" else 40, "big", signed=True)
    found, reason = avro_cell(kind, raw, good=b"\0" * (1 if kind["type"] == "bytes" else 40))
    if abs(unscaled) >= 10**precision:
        assert reason is not None and reason.startswith("f is ") and f"precision of {precision} digits" in reason
    else:
        assert reason is None
        assert pa.types.is_decimal(found.type) == (precision <= 38)
        assert Decimal(found.as_py()) == Decimal(f"{unscaled}E-{scale}")


_NAMES = iter(range(1 << 62))


@st.composite
def nested(draw: st.DrawFn, depth: int = 3, *, binary: bool = True) -> tuple[Any, Any, Any]:
    """A type with a uuid, a timestamp or a decimal within; its raw value, and the value of the column."""
    form = draw(st.sampled_from(["leaf"] if not depth else ["leaf", "array", "map", "record", "optional", "union"]))
    if form == "leaf":
        text = str(uuid.UUID(int=draw(st.integers(0, (1 << 128) - 1))))
        number = draw(st.integers(-99_999, 99_999))
        plain = [
            ({"type": "string", "logicalType": "uuid"}, text, text),
            ("string", "größe", "größe"),
            ("long", number, number),
        ]
        return draw(
            st.sampled_from(
                plain
                if not binary
                else [
                    *plain,
                    (
                        {"type": "fixed", "logicalType": "uuid", "name": f"U{next(_NAMES)}", "size": 16},
                        uuid.UUID(text).bytes,
                        text,
                    ),
                    (
                        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
                        number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True),
                        Decimal(number).scaleb(-2),
                    ),
                ]
            )
        )
    kind, raw, want = draw(nested(depth - 1, binary=binary))
    if form == "array":
        return {"type": "array", "items": kind}, [raw, raw], [want, want]
    if form == "map":
        return {"type": "map", "values": kind}, {"k": raw}, [("k", want)]
    if form == "record":
        return (
            {"type": "record", "name": f"R{next(_NAMES)}", "fields": [{"name": "x", "type": kind}]},
            {"x": raw},
            {"x": want},
        )
    if isinstance(kind, list):
        return kind, raw, want
    # fastavro chooses the branch of a value without a name by validation, which takes no names of annotated types within it.
    name = kind if isinstance(kind, str) else kind.get("name", kind["type"])
    if form == "optional":
        return ["null", kind], *(((name, raw), want) if draw(st.booleans()) else (None, None))
    first = draw(st.booleans())
    branches = [kind, "boolean"] if first else ["boolean", kind]
    member = {"member0": want, "member1": None} if first else {"member0": None, "member1": want}
    return ["null", *branches], (name, raw), member


UUID_TYPE = {"type": "string", "logicalType": "uuid"}
UUID_TEXT = "00000000-0000-0000-0000-000000000000"
#: An annotated type in a union within an array within a union.
UNION_IN_UNION = (
    ["null", {"type": "array", "items": ["null", "boolean", UUID_TYPE]}],
    ("array", [("string", UUID_TEXT)]),
    [{"member0": None, "member1": UUID_TEXT}],
)


@given(nested())
@example(UNION_IN_UNION)
@settings(max_examples=examples(200), deadline=None)
def test_avro_values_in_lists_maps_records_and_unions_are_themselves(case: tuple[Any, Any, Any]) -> None:
    kind, raw, want = case
    found, reason = avro_cell(kind, raw)
    assert reason is None and found.as_py() == want


@given(nested())
@example(UNION_IN_UNION)
@settings(max_examples=examples(200), deadline=None)
def test_avro_json_of_consume_is_written_as_the_same_bytes(case: tuple[Any, Any, Any]) -> None:
    kind, raw, _ = case
    schema = schema_of(kind)
    data = written(schema, {"f": raw, "id": 1})
    shown = json_of(fastavro.schemaless_reader(io.BytesIO(data), marked(schema, as_text=True), None))
    assert written(marked(schema), AvroInput(schema).value(shown.encode())) == data


@given(nested(binary=False))
@example(UNION_IN_UNION)
@settings(max_examples=examples(200), deadline=None)
def test_json_with_types_of_unions_is_written_as_the_same_bytes(case: tuple[Any, Any, Any]) -> None:
    """Avro's own JSON, as Confluent's tools write it; bytes differ there: they are characters."""
    kind, raw, _ = case
    schema, out = schema_of(kind), io.StringIO()
    fastavro.json_writer(out, schema, [{"f": raw, "id": 1}])
    data = written(schema, {"f": raw, "id": 1})
    assert written(marked(schema), AvroInput(schema).value(out.getvalue().encode())) == data


def record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    made = [{"name": one[0], "type": one[1]} | ({"default": one[2]} if len(one) > 2 else {}) for one in fields]
    return {"type": "record", "name": name, "fields": made}


@pytest.mark.parametrize(
    ("kind", "text", "raw"),
    [
        (["null", record("A", ("x", "int", 1)), record("B", ("y", "int"))], '{"y": 5}', ("B", {"y": 5})),
        (["null", record("A", ("x", "int", 1)), record("B", ("y", "int"))], '{"x": 5}', ("A", {"x": 5})),
        (["null", record("n.A", ("x", "int")), "string"], '{"n.A": {"x": 5}}', ("n.A", {"x": 5})),
        (["null", {"type": "map", "values": "string"}], '{"map": "x"}', ("map", {"map": "x"})),
        (["null", {"type": "map", "values": "string"}], '{"map": {"map": "x"}}', ("map", {"map": "x"})),
        (["null", record("A", ("A", "string"))], '{"A": "x"}', ("A", {"A": "x"})),
        (["float", "double"], "0.1", ("double", 0.1)),
        (["float", "double"], '{"float": 0.5}', ("float", 0.5)),
        ([{"type": "null"}, "int"], "null", None),
        (["null", {"type": "array", "items": ["int", "string"]}], '[{"int": 1}, {"string": "a"}]', ("array", [1, "a"])),
    ],
)
def test_value_of_a_union_is_of_the_type_that_loses_nothing(kind: Any, text: str, raw: Any) -> None:
    schema = schema_of(kind)
    made = AvroInput(schema).value(f'{{"f": {text}, "id": 1}}'.encode())
    assert written(marked(schema), made) == written(schema, {"f": raw, "id": 1})


@pytest.mark.parametrize(
    ("kind", "default", "raw"),
    [
        ("bytes", "\u00ff\n", b"\xff\n"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000a", b"\0a"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, "\u00ff", b"\xff"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 5, 5),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (["null", "bytes"], None, None),
        ({"type": "array", "items": ["bytes", "int"]}, ["a", 3], [b"a", 3]),
        ({"type": "map", "values": "bytes"}, {"k": "a"}, {"k": b"a"}),
        (record("Q", ("x", "bytes", "a"), ("y", ["null", "int"])), {}, {"x": b"a", "y": None}),
        (record("Q", ("x", "bytes", "a"), ("y", "int")), {"y": 7}, {"x": b"a", "y": 7}),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", "b"),
    ],
)
def test_missing_field_has_the_default_of_its_schema(kind: Any, default: Any, raw: Any) -> None:
    schema = fastavro.parse_schema(record("R", ("f", kind, default), ("id", "int")))
    assert written(marked(schema), AvroInput(schema).value(b'{"id": 1}')) == written(schema, {"f": raw, "id": 1})


def test_missing_field_without_a_default_is_named() -> None:
    schema = schema_of(record("Q", ("x", "int")))
    with pytest.raises(ValueError, match=r"f\.x is missing, and has no default"):
        AvroInput(schema).value(b'{"f": {}, "id": 1}')


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name} | more


RECORD = {"type": "record", "name": "Q", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("writer", "reader", "raw", "want"),
    [
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), 5, 5000),
        (logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), 5000, 5),
        (
            logical("long", "timestamp-micros"),
            logical("long", "timestamp-millis"),
            5001,
            "which timestamp-millis would round",
        ),
        (
            logical("long", "timestamp-millis"),
            logical("long", "local-timestamp-millis"),
            5,
            "written as timestamp-millis",
        ),
        (logical("long", "timestamp-millis"), "long", 5, 5),
        ("long", logical("long", "timestamp-millis"), 5, 5),
        (
            logical("bytes", "decimal", precision=4, scale=1),
            logical("bytes", "decimal", precision=6, scale=3),
            b"\x0f",
            Decimal("1.5"),
        ),
        (
            logical("bytes", "decimal", precision=4, scale=3),
            logical("bytes", "decimal", precision=4, scale=1),
            b"\x0f",
            "f is 0.015, not decimal128(4, 1)",
        ),
        (logical("string", "uuid"), "string", "u", "u"),
        ("int", ["null", "long"], 5, 5),
        ("string", ["null", "long", "string"], "x", {"member0": None, "member1": "x"}),
        (["null", RECORD], RECORD, ("Q", {"x": 1}), {"x": 1}),
        (RECORD, ["null", RECORD, "int"], {"x": 1}, {"member0": {"x": 1}, "member1": None}),
        (["null", RECORD, "int"], ["null", RECORD, "int"], ("Q", {"x": 1}), {"member0": {"x": 1}, "member1": None}),
    ],
)
def test_avro_value_of_another_schema_is_read_in_the_reader_unit(writer: Any, reader: Any, raw: Any, want: Any) -> None:
    found, reason = avro_cell(writer, raw, reader)
    if reason is not None:
        assert isinstance(want, str) and want in reason and reason.startswith("f is ")
    else:
        assert (found.value if pa.types.is_temporal(found.type) else found.as_py()) == want


def test_avro_types_of_referenced_schemas_are_columns() -> None:
    named: dict[str, Any] = {}
    inner = {
        "type": "record",
        "name": "Inner",
        "namespace": "a.b",
        "fields": [{"name": "u", "type": logical("string", "uuid")}],
    }
    fastavro.parse_schema(inner, named_schemas=named)
    outer = {
        "type": "record",
        "name": "Outer",
        "namespace": "c",
        "fields": [
            {"name": "one", "type": "a.b.Inner"},
            {"name": "all", "type": {"type": "array", "items": "a.b.Inner"}},
        ],
    }
    schema = fastavro.parse_schema(outer, named_schemas=named)
    value = {"one": {"u": "x"}, "all": [{"u": "y"}]}
    found = AvroDecoder(schema, lambda data: (None, data)).decode(pa.array([written(schema, value)], pa.binary()))
    assert found.values.to_pylist() == [value] and not found.bad


def test_avro_schemas_that_no_column_has_are_invalid_scans() -> None:
    with pytest.raises(InvalidScan, match="not a record"):
        AvroDecoder(fastavro.parse_schema({"type": "record", "name": "R", "fields": []}), lambda data: (None, data))
    with pytest.raises(InvalidScan, match="not a record"):
        AvroDecoder("string", lambda data: (None, data))


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("int", "2147483648", "f is 2147483648, not int"),
        ("long", "9223372036854775808", "f is 9223372036854775808, not long"),
        ("int", "true", "f is true, not int"),
        ("double", "9007199254740993", "a double, which would round it"),
        ("float", "1e39", 'f is "1E+39", not float'),
        ("bytes", '"?"', "bytes takes base64"),
        (logical("long", "timestamp-millis"), '"2024-01-01 00:00:00.0001"', "timestamp-millis, which would round it"),
        (logical("long", "timestamp-millis"), '"2024-02-30 00:00:00"', "not timestamp-millis"),
        (logical("int", "date"), '"10:00:00"', "not date"),
        (logical("bytes", "decimal", precision=3, scale=1), '"100.0"', "more than 3 digits"),
        (logical("bytes", "decimal", precision=3, scale=1), "0.15", "more than 1 digits after the point"),
        (logical("string", "uuid"), '"x"', "not uuid"),
        (["null", "int", "boolean"], '"x"', "no type of the union"),
    ],
)
def test_json_that_no_avro_value_is_has_a_reason_with_the_field(kind: Any, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="f is ") as raised:
        AvroInput(schema_of(kind)).value(f'{{"f": {text}, "id": 1}}'.encode())
    assert reason in str(raised.value)


# ---- Protobuf

PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message M { google.protobuf.Timestamp t = 1; google.protobuf.Duration d = 2; }
"""


def message_of(folder: Path, text: str) -> Any:
    (folder / "m.proto").write_text(text)
    return message_of_file(folder / "m.proto", "M")


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return message_of(tmp_path_factory.mktemp("proto"), PROTO)


@pytest.mark.usefixtures("processes")
@given(
    near(0, _FIRST_S, _LAST_S, 9_223_372_036, -9_223_372_036),
    st.one_of(INT32, st.integers(0, 999_999_999)),
    st.sampled_from(["ns", "us"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_protobuf_timestamp_is_its_number_or_a_reason(times: Any, seconds: int, nanos: int, unit: str) -> None:
    seconds = max(-(1 << 63), min(seconds, (1 << 63) - 1))
    decoder = ProtobufDecoder(times, lambda data: (times, data), unit)
    made = GetMessageClass(times)
    values = [
        made(t={"seconds": seconds, "nanos": nanos}).SerializeToString(),
        made(t={"seconds": 1}).SerializeToString(),
    ]
    found = decoder.decode(pa.array(values, pa.binary()))
    second = 1_000_000_000 if unit == "ns" else 1_000_000
    assert found.values[1]["t"].value == second
    is_time = _FIRST_S <= seconds <= _LAST_S and 0 <= nanos <= 999_999_999
    if is_time and (unit == "us" or abs(seconds) <= 9_223_372_035):
        number = (seconds * 1_000_000_000 + nanos) // (1_000_000_000 // second)
        assert not found.bad and found.values[0]["t"].value == number
    else:
        assert found.bad == [0] and found.reasons[0].startswith(f"t has {seconds} seconds and {nanos} nanos")


@pytest.mark.usefixtures("processes")
@given(near(0, 315_576_000_000, -315_576_000_000), st.one_of(INT32, st.integers(-999_999_999, 999_999_999)))
@settings(max_examples=examples(200), deadline=None)
def test_protobuf_duration_is_its_seconds_or_a_reason(times: Any, seconds: int, nanos: int) -> None:
    seconds = max(-(1 << 63), min(seconds, (1 << 63) - 1))
    decoder = ProtobufDecoder(times, lambda data: (times, data))
    value = GetMessageClass(times)(d={"seconds": seconds, "nanos": nanos}).SerializeToString()
    found = decoder.decode(pa.array([value], pa.binary()))
    if abs(seconds) <= 315_576_000_000 and abs(nanos) <= 999_999_999 and seconds * nanos >= 0:
        assert not found.bad
        assert found.values[0]["d"].as_py() == Decimal(seconds * 1_000_000_000 + nanos).scaleb(-9)
    else:
        assert found.bad == [0] and found.reasons[0].startswith(f"d has {seconds} seconds and {nanos} nanos")


_PROTO2 = 'syntax = "proto2"; message N { optional int32 x = 1; } '


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("text", "body", "want"),
    [
        ("message M { map<int32, int32> f = 1; }", "0a04080110010a0408011002", [(1, 2)]),
        ("message N { int32 x = 1; } message M { map<string, N> f = 1; }", "0a030a0161", [("a", {"x": 0})]),
        (
            "message N { map<int32, int32> m = 1; } message M { repeated N f = 1; }",
            "0a0c0a04080110010a0408011002",
            [{"m": [(1, 2)]}],
        ),
        ("message M { oneof o { int32 f = 1; string g = 2; } }", "0801120161", None),
        ("message M { oneof o { int32 f = 1; string g = 2; } }", "1201610801", 1),
        ("message M { optional int32 f = 1; }", "0800", 0),
        ("enum E { A = 0; } message M { E f = 1; }", "0807", 7),
        (_PROTO2 + "message M { optional group F = 1 { optional int32 a = 2; } }", "0b10050c", {"a": 5}),
        (
            _PROTO2 + "message M { repeated group F = 1 { optional N n = 2; repeated int32 l = 3; } }",
            "0b1202080518010c",
            [{"n": {"x": 5}, "l": [1]}],
        ),
        (_PROTO2 + "message M { optional int32 f = 1 [default = 5]; }", "", None),
    ],
)
def test_protobuf_bytes_have_the_meaning_of_protobuf(tmp_path: Path, text: str, body: str, want: Any) -> None:
    head = "" if text.startswith("syntax") else 'syntax = "proto3"; '
    message = message_of(tmp_path, head + text)
    decoder = ProtobufDecoder(message, lambda data: (message, data))
    found = decoder.decode(pa.array([bytes.fromhex(body), b""], pa.binary()))
    assert not found.bad and next(iter(found.values[0].as_py().values())) == want


def test_json_schemas_without_properties_are_text() -> None:
    from odradek.columns.json_schema_types import type_of_json_schema

    properties = {
        "a": {"type": "object", "properties": {}},
        "b": True,
        "c": {"$ref": "#/x"},
        "d": {"type": "array", "items": [{}]},
    }
    found = type_of_json_schema(json.dumps({"properties": properties}))
    assert found == pa.struct([(name, pa.string()) for name in properties])


LINKED = {"type": "record", "name": "L", "fields": [{"name": "i", "type": "int"}, {"name": "n", "type": ["null", "L"]}]}
TREE = {"type": "record", "name": "T", "fields": [{"name": "m", "type": {"type": "map", "values": ["int", "T"]}}]}
ITSELF = {"type": "record", "name": "S", "fields": [{"name": "n", "type": "S"}]}


def linked(levels: int) -> bytes:
    return b"\2\2" * (levels - 1) + b"\2\0"


def tree(levels: int) -> bytes:
    """Each level is a record and its map."""
    return b"\2\2k\2" * (levels // 2 - 1) + b"\0" * (levels // 2)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        (LINKED, linked(200), True), (LINKED, linked(201), False), (LINKED, linked(100_000), False),
        (TREE, tree(200), True), (TREE, tree(202), False), (TREE, tree(100_000), False), (ITSELF, b"", False),
    ],
)  # fmt: skip
def test_levels_of_an_avro_value_that_its_schema_does_not_limit(schema: Any, value: bytes, fits: bool) -> None:
    """fastavro alone ends the process."""
    parsed = parsed_avro(json.dumps(schema))
    reader = AvroReader(parsed, as_text=True)
    if fits:
        assert reader.read(value)
    else:
        with pytest.raises(ValueError, match="more than 200 levels"):
            reader.read(value)
    found = AvroDecoder(parsed, lambda data: (None, data)).decode(pa.array([value], pa.binary()))
    assert found.bad == ([] if fits else [0])
    outer = {"type": "record", "name": "O", "fields": [{"name": "x", "type": schema}, {"name": "k", "type": "int"}]}
    shown = {"type": "record", "name": "O", "fields": [{"name": "k", "type": "int"}]}
    writer = AvroReader(parsed_avro(json.dumps(outer)))
    skipping = AvroDecoder(parsed_avro(json.dumps(shown)), lambda data: (writer, data))
    if not fits:
        assert skipping.decode(pa.array([value + b"\2"], pa.binary())).bad == [0]


def test_avro_schema_with_records_that_double_is_refused() -> None:
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "i", "type": "int"}]}
    for level in range(1, 30):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(InvalidScan, match="more than 10000 columns"):
        AvroDecoder(parsed_avro(json.dumps(schema)), lambda data: (None, data))


def doubled(folder: Path, levels: int) -> Any:
    """A message whose messages have the one before twice."""
    folder.mkdir()
    messages = [f"message M{one} {{ M{one - 1} x = 1; M{one - 1} y = 2; }}" for one in range(levels, 0, -1)]
    text = "\n".join(('syntax = "proto3";', *messages, "message M0 { int32 i = 1; }"))
    (folder / "m.proto").write_text(text)
    return message_of_file(folder / "m.proto", f"M{levels}")


def test_protobuf_schema_with_messages_that_double_is_refused_and_so_are_the_values_of_one(tmp_path: Path) -> None:
    large, small = doubled(tmp_path / "large", 30), doubled(tmp_path / "small", 2)
    with pytest.raises(InvalidScan, match="more than 10000 columns"):
        ProtobufDecoder(large, lambda data: (large, data))
    decoder = ProtobufDecoder(small, lambda data: (large if data else small, data))
    found = decoder.decode(pa.array([b"", b"\n\0"], pa.binary()))
    assert found.bad == [1] and "more than 10000 columns" in found.reasons[0]


def test_avro_items_without_bytes_are_found_beside_another_type_of_their_name() -> None:
    fields = [
        {"name": "a", "type": {"type": "record", "name": "x.E", "fields": []}},
        {"name": "b", "type": {"type": "enum", "name": "y.E", "symbols": ["s"]}},
        {"name": "c", "type": {"type": "array", "items": "x.E"}},
    ]
    for some in (fields, [fields[1], fields[0], fields[2]]):
        with pytest.raises(ValueError, match="in 0 bytes"):
            parsed_avro(json.dumps({"type": "record", "name": "R", "fields": some}))
