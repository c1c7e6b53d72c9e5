"""Every type of Avro, Protobuf and JSON Schema, with values at its bounds, and its column.

A case is a field of one wide record: `name` is also its name in the schema. `raw` is what Avro has below a logical type, a
field of Protobuf (or the bytes of the whole message), or JSON text. `want` is the value of the column in a scan.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

_SAME = object()
NAN, INFINITY = float("nan"), float("inf")
UTC_MS, UTC_US, UTC_NS = (pa.timestamp(unit, tz="UTC") for unit in ("ms", "us", "ns"))
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799


class Value(NamedTuple):
    """`reason`: words of the reason where no column has the value; `table`: what a table and Spark have in place of `want`.

    `shown`: whether `consume` shows it, and `produce` makes the same bytes of that.
    """

    raw: Any
    want: Any = None
    reason: str | None = None
    table: Any = _SAME
    shown: bool = True

    def wanted(self, *, in_table: bool) -> tuple[Any, str | None]:
        if in_table and self.table is not _SAME:
            return self.table, None
        return self.want, self.reason


def bad(raw: Any, reason: str, **more: Any) -> Value:
    return Value(raw, None, reason, **{"shown": False} | more)


class Case(NamedTuple):
    name: str
    schema: Any
    column: pa.DataType
    values: list[Value]
    #: The row of docs/specialists/record-values.md that it stands for.
    row: str


def same(*values: Any) -> list[Value]:
    return [Value(one, one) for one in values]


def _signed(bits: int) -> list[Value]:
    return same(0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1))


def _unsigned(bits: int) -> list[Value]:
    return same(0, 1, (1 << bits) - 1)


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical} | more


def _two_complement(number: int, size: int | None = None) -> bytes:
    return number.to_bytes(size or (number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


_FLOATS = same(0.0, -0.0, 1.5, 3.4028234663852886e38, 1.401298464324817e-45, NAN, INFINITY, -INFINITY)
#: protobuf's JSON has the largest float as 3.4028235e+38, and does not read that again.
_PROTO_FLOATS = [
    one._replace(shown=abs(one.raw) < 3e38 or abs(one.raw) == INFINITY or one.raw != one.raw) for one in _FLOATS
]
_DOUBLES = same(0.0, -0.0, 0.1, 1.7976931348623157e308, 5e-324, NAN, INFINITY, -INFINITY)
_TEXTS = same("", "a", "größe 😀", "\0", "null")
_BYTES = same(b"", b"a", b"\xff\0", bytes(range(256)))
_UUID = "01234567-89ab-cdef-0123-456789abcdef"
_BEYOND_YEARS = "the years 1 to 9999"


# ---- Avro


def _times(name: str, kind: str, parts: int, column: pa.DataType) -> Case:
    day = 86_400 * parts
    values = [*same(0, 1, day - 1), bad(-1, f"{name} is -1, and a time"), bad(day, f"{name} is {day}, and a time")]
    return Case(name, _logical(kind, name.replace("_", "-")), column, values, name.replace("_", "-"))


def _stamps(name: str, parts: int, column: pa.DataType) -> Case:
    first, last = _FIRST_S * parts, (_LAST_S + 1) * parts - 1
    values = [
        *same(0, -1, 1_700_000_000 * parts + 1, first, last),
        *(
            bad(one, f"{name} is {one}, and a .* {_BEYOND_YEARS}")
            for one in (first - 1, last + 1, (1 << 63) - 1, -(1 << 63))
        ),
    ]
    return Case(name, _logical("long", name.replace("_", "-")), column, values, name.replace("_", "-"))


def _nanos(name: str, column: pa.DataType) -> Case:
    most = (1 << 63) - 2
    values = [
        *(Value(one, one, table=one // 1000) for one in (0, -1, 1_700_000_000_123_456_789, most, -most)),
        *(bad(one, f"{name} is {one}, .* the years 1678 to 2261") for one in ((1 << 63) - 1, -(1 << 63))),
    ]
    return Case(name, _logical("long", name.replace("_", "-")), column, values, name.replace("_", "-"))


def _decimals(name: str, precision: int, scale: int, size: int | None = None) -> Case:
    most = 10**precision - 1
    is_text = precision > 38
    column = pa.string() if is_text else pa.decimal128(precision, scale)
    schema: dict[str, Any] = {"logicalType": "decimal", "precision": precision, "scale": scale}
    schema |= {"type": "fixed", "name": f"Fixed_{name}", "size": size} if size else {"type": "bytes"}
    values = []
    for one in (0, 1, -1, most, -most):
        number = Decimal(f"{one}E{-scale}")
        values.append(Value(_two_complement(one, size), format(number, "f") if is_text else number))
    values.append(bad(_two_complement(most + 1, size), f"{name} is .* its precision of {precision} digits"))
    row = "decimal, more than 38 digits" if is_text else "decimal, up to 38 digits"
    return Case(name, schema, column, values, row)


_DURATION = pa.struct([(name, pa.uint32()) for name in ("months", "days", "milliseconds")])
_LEAF: dict[str, Any] = {"type": "record", "name": "Leaf", "fields": [{"name": "n", "type": "int"}]}
_NODE: dict[str, Any] = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
_UNION: list[Any] = ["long", "string", "boolean", _logical("int", "date"), {"type": "array", "items": "int"}]
_MEMBERS = pa.struct(
    [
        ("member0", pa.int64()),
        ("member1", pa.string()),
        ("member2", pa.bool_()),
        ("member3", pa.date32()),
        ("member4", pa.list_(pa.int32())),
    ]
)
_NAMED: list[Any] = [
    {"type": "record", "name": "Left", "fields": [{"name": "a", "type": "int"}]},
    {"type": "record", "name": "Right", "fields": [{"name": "b", "type": _logical("string", "uuid")}]},
    {"type": "enum", "name": "Side", "symbols": ["L", "R"]},
]
_NAMED_MEMBERS = pa.struct(
    [
        ("member0", pa.struct([("a", pa.int32())])),
        ("member1", pa.struct([("b", pa.string())])),
        ("member2", pa.string()),
    ]
)
_BIG_DECIMAL = b"\x04\x30\x39\x04"  # 12345 with the scale 2

AVRO = [
    Case("null", "null", pa.null(), same(None), "null"),
    Case("boolean", "boolean", pa.bool_(), same(True, False), "boolean"),
    Case("int", "int", pa.int32(), _signed(32), "int"),
    Case("long", "long", pa.int64(), _signed(64), "long"),
    Case("float", "float", pa.float32(), _FLOATS, "float"),
    Case("double", "double", pa.float64(), _DOUBLES, "double"),
    Case("bytes", "bytes", pa.binary(), _BYTES, "bytes"),
    Case("string", "string", pa.string(), _TEXTS, "string"),
    Case("enum", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, pa.string(), same("A", "B"), "enum"),
    Case("fixed", {"type": "fixed", "name": "Four", "size": 4}, pa.binary(4), same(b"\0\0\0\0", b"\xff\0ab"), "fixed"),
    Case("array", {"type": "array", "items": "long"}, pa.list_(pa.int64()), same([], [1, -(1 << 63)]), "array"),
    Case(
        "map",
        {"type": "map", "values": "string"},
        pa.map_(pa.string(), pa.string()),
        [Value({}, []), Value({"": "a", "b": ""}, [("", "a"), ("b", "")])],
        "map",
    ),
    Case("record", _LEAF, pa.struct([("n", pa.int32())]), same({"n": 5}), "record"),
    Case("reference", "Leaf", pa.struct([("n", pa.int32())]), same({"n": 6}), "record"),
    Case(
        "empty_record",
        {"type": "record", "name": "Nothing", "fields": []},
        pa.string(),
        [Value({}, "{}")],
        "record without fields, or within itself",
    ),
    Case(
        "recursive",
        _NODE,
        pa.struct([("n", pa.int32()), ("next", pa.string())]),
        [
            Value({"n": 1, "next": None}, {"n": 1, "next": None}),
            Value({"n": 1, "next": {"n": 2, "next": None}}, {"n": 1, "next": '{"n":2,"next":null}'}),
        ],
        "record without fields, or within itself",
    ),
    Case("optional", ["null", "int"], pa.int32(), same(None, 7), "union of null and one type"),
    Case("int_or_long", ["int", "long"], pa.int64(), [Value(5, 5), Value(1 << 40, 1 << 40)], "union of int and long"),
    Case(
        "float_or_double",
        ["float", "double"],
        pa.float64(),
        [Value(("double", 0.1), 0.1, shown=False)],
        "union of float and double",
    ),
    Case(
        "union",
        _UNION,
        _MEMBERS,
        [
            Value(("long", 5), {"member0": 5}),
            Value(("string", "5"), {"member1": "5"}),
            Value(("boolean", True), {"member2": True}),
            Value(("int", 19_000), {"member3": 19_000}, shown=False),
            Value(("array", [1]), {"member4": [1]}),
            bad(("int", 3_000_000), "union is 3000000, and a date"),
        ],
        "any other union",
    ),
    Case(
        "named_union",
        _NAMED,
        _NAMED_MEMBERS,
        [
            Value(("Left", {"a": 1}), {"member0": {"a": 1}}),
            Value(("Right", {"b": _UUID}), {"member1": {"b": _UUID}}, shown=False),
            Value(("Side", "R"), {"member2": "R"}),
        ],
        "any other union",
    ),
    _decimals("decimal_1", 1, 0),
    _decimals("decimal_9_2", 9, 2),
    _decimals("decimal_38_10", 38, 10),
    _decimals("decimal_38_38", 38, 38),
    _decimals("decimal_39_0", 39, 0),
    _decimals("decimal_76_20", 76, 20),
    _decimals("decimal_100", 100, 1),
    _decimals("fixed_decimal_18", 18, 4, 8),
    _decimals("fixed_decimal_76", 76, 0, 32),
    Case(
        "big_decimal",
        _logical("bytes", "big-decimal"),
        pa.string(),
        [Value(_BIG_DECIMAL, "123.45"), bad(b"\x04\x30", "big_decimal is not a big-decimal")],
        "big-decimal",
    ),
    Case("uuid", _logical("string", "uuid"), pa.string(), same(_UUID), "uuid"),
    Case(
        "uuid_fixed",
        _logical("fixed", "uuid", name="Sixteen", size=16),
        pa.string(),
        [Value(bytes.fromhex(_UUID.replace("-", "")), _UUID)],
        "uuid",
    ),
    Case(
        "uuids",
        {"type": "array", "items": _logical("string", "uuid")},
        pa.list_(pa.string()),
        same([], [_UUID]),
        "uuid",
    ),
    Case(
        "uuid_map",
        {"type": "map", "values": _logical("string", "uuid")},
        pa.map_(pa.string(), pa.string()),
        [Value({"k": _UUID}, [("k", _UUID)])],
        "uuid",
    ),
    Case("uuid_or_null", ["null", _logical("string", "uuid")], pa.string(), same(None, _UUID), "uuid"),
    Case(
        "uuid_or_long",
        [_logical("string", "uuid"), "long"],
        pa.struct([("member0", pa.string()), ("member1", pa.int64())]),
        [Value(("string", _UUID), {"member0": _UUID}), Value(("long", 1), {"member1": 1})],
        "uuid",
    ),
    Case(
        "date",
        _logical("int", "date"),
        pa.date32(),
        [
            *same(0, -1, -719_162, 2_932_896),
            *(
                bad(one, f"date is {one}, and a date .*{_BEYOND_YEARS}")
                for one in (-719_163, 2_932_897, (1 << 31) - 1, -(1 << 31))
            ),
        ],
        "date",
    ),
    _times("time_millis", "int", 1000, pa.time32("ms")),
    _times("time_micros", "long", 1_000_000, pa.time64("us")),
    _stamps("timestamp_millis", 1000, UTC_MS),
    _stamps("timestamp_micros", 1_000_000, UTC_US),
    _stamps("local_timestamp_millis", 1000, pa.timestamp("ms")),
    _stamps("local_timestamp_micros", 1_000_000, pa.timestamp("us")),
    _nanos("timestamp_nanos", UTC_NS),
    _nanos("local_timestamp_nanos", pa.timestamp("ns")),
    Case(
        "duration",
        _logical("fixed", "duration", name="Twelve", size=12),
        _DURATION,
        [
            Value(struct.pack("<III", *parts), dict(zip(("months", "days", "milliseconds"), parts, strict=True)))
            for parts in ((0, 0, 0), (1, 2, 3), (2**32 - 1,) * 3)
        ],
        "duration",
    ),
    Case(
        "unknown_logical", _logical("int", "degrees"), pa.int32(), same(5), "another logical type, or on another type"
    ),
    Case("misplaced", _logical("string", "date"), pa.string(), same("x"), "another logical type, or on another type"),
]


# ---- Protobuf

PROTO_HEAD = """syntax = "proto3";
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
"""
PROTO_TYPES = """
enum Kind { option allow_alias = true; NONE = 0; NEW = 1; FRESH = 1; LEAST = -2147483648; MOST = 2147483647; }
message Leaf { int32 n = 1; google.protobuf.Timestamp at = 2; }
message Nothing {}
message Node { int32 n = 1; Node next = 2; }
"""
_G = "google.protobuf."


def _proto(name: str, kind: str, column: pa.DataType, values: list[Value], row: str | None = None) -> Case:
    return Case(name, kind, column, values, row or kind)


def _wrapped(kind: str, column: pa.DataType, raw: Any, least: Any) -> Case:
    values = [Value({"value": raw}, raw), Value({"value": least}, least), Value(None, None)]
    return _proto(f"wrapped_{kind.lower()}", f"{_G}{kind}", column, values, "wrappers")


def _proto_time(seconds: int, nanos: int = 0) -> dict[str, int]:
    return {"seconds": seconds, "nanos": nanos}


def _stamp(seconds: int, nanos: int = 0) -> Value:
    raw, us = _proto_time(seconds, nanos), seconds * 1_000_000 + nanos // 1000
    if abs(seconds) > 9_223_372_035:
        return Value(raw, None, f"has {seconds} seconds .*the years 1678 to 2261", table=us)
    return Value(raw, seconds * 1_000_000_000 + nanos, table=us)


def _span(seconds: int, nanos: int = 0) -> Value:
    return Value(_proto_time(seconds, nanos), Decimal(seconds * 1_000_000_000 + nanos).scaleb(-9))


_KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int32": (pa.int32(), [0, -(1 << 31)]),
    "int64": (pa.int64(), [0, -(1 << 63)]),
    "uint32": (pa.uint32(), [0, (1 << 32) - 1]),
    "uint64": (pa.uint64(), [0, (1 << 64) - 1]),
    "sint32": (pa.int32(), [-1]),
    "sint64": (pa.int64(), [-1]),
    "fixed32": (pa.uint32(), [(1 << 32) - 1]),
    "fixed64": (pa.uint64(), [(1 << 64) - 1]),
    "sfixed32": (pa.int32(), [-1]),
    "sfixed64": (pa.int64(), [-1]),
    "bool": (pa.bool_(), [True, False]),
    "string": (pa.string(), ["", "größe"]),
}
_SCALARS = {
    "double": (pa.float64(), _DOUBLES),
    "float": (pa.float32(), _PROTO_FLOATS),
    "int32": (pa.int32(), _signed(32)),
    "int64": (pa.int64(), _signed(64)),
    "uint32": (pa.uint32(), _unsigned(32)),
    "uint64": (pa.uint64(), _unsigned(64)),
    "sint32": (pa.int32(), _signed(32)),
    "sint64": (pa.int64(), _signed(64)),
    "fixed32": (pa.uint32(), _unsigned(32)),
    "fixed64": (pa.uint64(), _unsigned(64)),
    "sfixed32": (pa.int32(), _signed(32)),
    "sfixed64": (pa.int64(), _signed(64)),
    "bool": (pa.bool_(), same(True, False)),
    "string": (pa.string(), _TEXTS),
    "bytes": (pa.binary(), _BYTES),
}
_ROWS = dict.fromkeys(("int32", "sint32", "sfixed32"), "int32, sint32, sfixed32")
_ROWS |= dict.fromkeys(("int64", "sint64", "sfixed64"), "int64, sint64, sfixed64")
_ROWS |= {
    "uint32": "uint32, fixed32",
    "fixed32": "uint32, fixed32",
    "uint64": "uint64, fixed64",
    "fixed64": "uint64, fixed64",
}
_LEAF_TYPE = pa.struct([("n", pa.int32()), ("at", UTC_NS)])

PROTOBUF = [
    *(_proto(f"a_{kind}", kind, column, values, _ROWS.get(kind, kind)) for kind, (column, values) in _SCALARS.items()),
    *(
        _proto(
            f"list_{kind}",
            f"repeated {kind}",
            pa.list_(column),
            [
                Value([], []),
                Value(
                    [one.raw for one in values], [one.want for one in values], shown=all(one.shown for one in values)
                ),
            ],
            "repeated",
        )
        for kind, (column, values) in _SCALARS.items()
    ),
    *(
        _proto(
            f"map_{kind}",
            f"map<{kind}, int32>",
            pa.map_(column, pa.int32()),
            [Value({key: 5}, [(key, 5)]) for key in keys],
            "map",
        )
        for kind, (column, keys) in _KEYS.items()
    ),
    _proto("an_enum", "Kind", pa.int32(), same(0, 1, 7, -(1 << 31), (1 << 31) - 1), "enum"),
    _proto("an_optional", "optional int32", pa.int32(), same(None, 0, 5), "optional, oneof"),
    _proto(
        "a_message",
        "Leaf",
        _LEAF_TYPE,
        [
            Value(None, None),
            Value({}, {"n": 0}),
            Value({"n": 3, "at": _proto_time(5)}, {"n": 3, "at": 5_000_000_000}, table={"n": 3, "at": 5_000_000}),
            Value(
                {"at": _proto_time(_LAST_S)},
                None,
                f"a_message.at has {_LAST_S} seconds",
                table={"n": 0, "at": _LAST_S * 1_000_000},
            ),
        ],
        "message",
    ),
    _proto(
        "messages",
        "repeated Leaf",
        pa.list_(_LEAF_TYPE),
        [
            Value([{"n": 1}, {}], [{"n": 1}, {"n": 0}]),
            bad([{}, {"at": _proto_time(_LAST_S + 1)}], r"messages\[\].at has 253402300800 seconds"),
        ],
        "message",
    ),
    _proto(
        "message_map",
        "map<string, Leaf>",
        pa.map_(pa.string(), _LEAF_TYPE),
        [Value({"a": {"n": 1}}, [("a", {"n": 1})])],
        "map",
    ),
    _proto(
        "recursive",
        "Node",
        pa.struct([("n", pa.int32()), ("next", pa.binary())]),
        [
            Value({"n": 1}, {"n": 1}),
            Value({"n": 1, "next": {"n": 2}}, {"n": 1, "next": b"\x08\x02"}),
        ],
        "message within itself",
    ),
    _proto("nothing", "Nothing", pa.string(), [Value({}, "{}"), Value(None, None)], "message without fields, Empty"),
    _proto("empty", f"{_G}Empty", pa.string(), [Value({}, "{}"), Value(None, None)], "message without fields, Empty"),
    _proto(
        "timestamp",
        f"{_G}Timestamp",
        UTC_NS,
        [
            Value(None, None),
            _stamp(0),
            _stamp(-1, 999_999_999),
            _stamp(1_700_000_000, 123_456_789),
            _stamp(_FIRST_S),
            _stamp(_LAST_S, 999_999_999),
            _stamp(-9_223_372_036),
            _stamp(9_223_372_036),
            _stamp(-9_223_372_035),
            _stamp(9_223_372_035, 999_999_999),
            *(
                bad(one, "timestamp has .* the years 1 to 9999")
                for one in (
                    _proto_time(_FIRST_S - 1),
                    _proto_time(_LAST_S + 1),
                    _proto_time(0, 1_000_000_000),
                    _proto_time(0, -1),
                    _proto_time((1 << 63) - 1),
                    _proto_time(-(1 << 63)),
                )
            ),
        ],
        "Timestamp",
    ),
    _proto(
        "timestamps",
        f"repeated {_G}Timestamp",
        pa.list_(UTC_NS),
        [
            Value([_proto_time(1)], [1_000_000_000], table=[1_000_000]),
            bad([_proto_time(1), _proto_time(_LAST_S + 1)], r"timestamps\[\] has 253402300800"),
        ],
        "Timestamp",
    ),
    _proto(
        "timestamp_map",
        f"map<int32, {_G}Timestamp>",
        pa.map_(pa.int32(), UTC_NS),
        [
            Value({1: _proto_time(1)}, [(1, 1_000_000_000)], table=[(1, 1_000_000)]),
            bad({1: _proto_time(_LAST_S + 1)}, r"timestamp_map\{\} has 253402300800"),
        ],
        "Timestamp",
    ),
    _proto(
        "a_duration",
        f"{_G}Duration",
        pa.decimal128(21, 9),
        [
            Value(None, None),
            _span(0),
            _span(1, 500_000_000),
            _span(-1, -500_000_000),
            _span(0, -1),
            _span(315_576_000_000, 999_999_999),
            _span(-315_576_000_000, -999_999_999),
            *(
                bad(one, "a_duration has .*a Duration has")
                for one in (
                    _proto_time(315_576_000_001),
                    _proto_time(-315_576_000_001),
                    _proto_time(1, -1),
                    _proto_time(-1, 1),
                    _proto_time(0, 1_000_000_000),
                    _proto_time(-(1 << 63)),
                )
            ),
        ],
        "Duration",
    ),
    _proto(
        "durations",
        f"repeated {_G}Duration",
        pa.list_(pa.decimal128(21, 9)),
        [Value([_proto_time(1), _proto_time(2, 1)], [Decimal(1), Decimal("2.000000001")])],
        "Duration",
    ),
    _wrapped("DoubleValue", pa.float64(), 0.1, 0.0),
    _wrapped("FloatValue", pa.float32(), 1.5, 0.0),
    _wrapped("Int64Value", pa.int64(), -(1 << 63), 0),
    _wrapped("UInt64Value", pa.uint64(), (1 << 64) - 1, 0),
    _wrapped("Int32Value", pa.int32(), -(1 << 31), 0),
    _wrapped("UInt32Value", pa.uint32(), (1 << 32) - 1, 0),
    _wrapped("BoolValue", pa.bool_(), True, False),
    _wrapped("StringValue", pa.string(), "größe", ""),
    _wrapped("BytesValue", pa.binary(), b"\xff", b""),
    _proto(
        "a_struct",
        f"{_G}Struct",
        pa.string(),
        [
            Value(None, None),
            Value({}, "{}"),
            Value({"a": [1.5, None]}, '{"a":[1.5,null]}'),
            bad({"a": NAN}, "a_struct is not JSON as a Struct has"),
        ],
        "Struct, Value, ListValue",
    ),
    _proto(
        "a_value",
        f"{_G}Value",
        pa.string(),
        [
            Value({"null_value": 0}, "null"),
            Value({"string_value": "x"}, '"x"'),
            Value({"bool_value": True}, "true"),
            bad({"number_value": INFINITY}, "a_value is not JSON"),
        ],
        "Struct, Value, ListValue",
    ),
    _proto(
        "a_list_value",
        f"{_G}ListValue",
        pa.string(),
        [Value({}, "[]"), Value({"values": [{"string_value": "x"}]}, '["x"]')],
        "Struct, Value, ListValue",
    ),
    _proto(
        "any",
        f"{_G}Any",
        pa.struct([("type_url", pa.string()), ("value", pa.binary())]),
        [Value({"type_url": "x/y", "value": b"\1"}, {"type_url": "x/y", "value": b"\1"}, shown=False)],
        "Any",
    ),
    _proto(
        "mask",
        f"{_G}FieldMask",
        pa.struct([("paths", pa.list_(pa.string()))]),
        [Value({"paths": ["a_b", "c"]}, {"paths": ["a_b", "c"]})],
        "FieldMask",
    ),
]


def proto_text() -> str:
    """The schema with a field for each case, and a `oneof` of an int32 and a text."""
    fields = "".join(f"  {case.schema} {case.name} = {number};\n" for number, case in enumerate(PROTOBUF, 1))
    choice = "oneof choice { int32 one = 900; string other = 901; }"
    return f"{PROTO_HEAD}message Wide {{\n{fields}  {choice}\n}}\n{PROTO_TYPES}"


# ---- JSON Schema

_MOST = (1 << 63) - 1
JSON = [
    Case(
        "integer",
        {"type": "integer"},
        pa.int64(),
        [
            Value("0", 0),
            Value("9007199254740993", 9_007_199_254_740_993),
            Value(str(_MOST), _MOST),
            Value(str(-_MOST - 1), -_MOST - 1),
            bad(str(_MOST + 1), "integer is 9223372036854775808, not int64", shown=True),
            bad("1.5", "integer is 1.5, not int64", shown=True),
            bad("true", "integer is true, not int64", shown=True),
            Value("null", None),
        ],
        "integer",
    ),
    Case(
        "number",
        {"type": "number"},
        pa.float64(),
        [
            Value("0.1", 0.1),
            Value("-0.0", -0.0),
            Value("9007199254740992", 9007199254740992.0),
            Value("1.7976931348623157e308", 1.7976931348623157e308),
            bad("9007199254740993", "number is 9007199254740993, which a double would round", shown=True),
            bad("1e400", "number is 1e400"),
            bad('{"a": 1}', "number is an object, not double", shown=True),
        ],
        "number",
    ),
    Case(
        "boolean",
        {"type": "boolean"},
        pa.bool_(),
        [Value("true", True), Value("false", False), bad("1", "boolean is 1, not bool", shown=True)],
        "boolean",
    ),
    Case(
        "string",
        {"type": "string"},
        pa.string(),
        [Value('""', ""), Value('"größe"', "größe"), Value('"\\u0000"', "\0")],
        "string",
    ),
    *(
        Case(
            name.replace("-", "_"),
            {"type": "string", "format": name},
            pa.string(),
            [Value(f'"{one}"', one)],
            "string with a format",
        )
        for name, one in (
            ("date-time", "9999-12-31T23:59:60.5Z"),
            ("date", "0000-01-01"),
            ("time", "24:00:00Z"),
            ("duration", "P1Y"),
            ("uuid", _UUID),
            ("email", "a@b"),
            ("byte", "AAE="),
            ("unknown", "x"),
        )
    ),
    Case(
        "nullable", {"type": ["null", "integer"]}, pa.int64(), [Value("null", None), Value("5", 5)], "null and one type"
    ),
    Case("only_null", {"type": "null"}, pa.string(), [Value("null", None)], "anything else"),
    Case(
        "array",
        {"type": "array", "items": {"type": "integer"}},
        pa.list_(pa.int64()),
        [
            Value("[]", []),
            Value("[1, null]", [1, None]),
            bad("[1.5]", r"array\[0\] is 1.5, not int64", shown=True),
            bad("{}", "array is an object, not a list", shown=True),
        ],
        "array with items",
    ),
    Case("any_array", {"type": "array"}, pa.string(), [Value('[1,"a"]', '[1,"a"]')], "anything else"),
    Case(
        "object",
        {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
        pa.struct([("a", pa.struct([("b", pa.int64())]))]),
        [
            Value('{"a": {"b": 1}}', {"a": {"b": 1}}),
            Value("{}", {}),
            bad('{"a": {"b": "x"}}', "object.a.b is the text 'x', not int64", shown=True),
        ],
        "object with properties",
    ),
    Case(
        "empty_object",
        {"type": "object", "properties": {}},
        pa.string(),
        [Value("{}", "{}"), Value('{"a":1}', '{"a":1}')],
        "anything else",
    ),
    Case(
        "additional",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        pa.string(),
        [Value('{"a":1}', '{"a":1}')],
        "anything else",
    ),
    Case(
        "one_of",
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        pa.string(),
        [Value("5", "5"), Value('"x"', "x")],
        "anything else",
    ),
    Case(
        "any_of",
        {"anyOf": [{"type": "object"}, {"type": "array"}]},
        pa.string(),
        [Value('{"a":[1]}', '{"a":[1]}'), Value("[1]", "[1]")],
        "anything else",
    ),
    Case("const", {"const": 5}, pa.string(), [Value("5", "5")], "anything else"),
    Case(
        "enum",
        {"enum": ["a", 1, None]},
        pa.string(),
        [Value('"a"', "a"), Value("1", "1"), Value("null", None)],
        "anything else",
    ),
    Case(
        "anything",
        {},
        pa.string(),
        [Value("12345678901234567890.5", "12345678901234567890.5"), Value('{"a":1e400}', '{"a":1e400}', shown=False)],
        "anything else",
    ),
    Case("always", True, pa.string(), [Value("[true]", "[true]")], "anything else"),
]

CASES = {"avro": AVRO, "protobuf": PROTOBUF, "json": JSON}


def numbered(form: str) -> Iterator[tuple[int, Case, Value]]:
    """The values of a format's cases, with the offsets of their records."""
    values = ((case, value) for case in CASES[form] for value in case.values)
    return ((offset, case, value) for offset, (case, value) in enumerate(values))
