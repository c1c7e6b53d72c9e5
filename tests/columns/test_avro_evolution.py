"""Values that another schema has written: defaults are the values that their types have, and no number is rounded."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columns.avro_decoder import AvroDecoder
from odradek.columns.decoder import Decoded
from odradek.records.avro_reader import AvroReader
from odradek.records.avro_schemas import parsed_avro

from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("processes")


_SIMPLE = (
    "int", "long", "double", "string", "bytes", "boolean", "fixed", "enum", "decimal", "millis", "uuid", "duration",
)  # fmt: skip
_OF_OTHERS = ("array", "map", "record", "union", "union3")
_NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([1 << 24, 1 << 53, -(1 << 53), 0])


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind} | more


def decoded(writer: dict[str, Any], reader: dict[str, Any], value: dict[str, Any]) -> Decoded:
    """A value of the writer's schema in the columns of the reader's."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(writer))), value)
    reading = AvroReader(parsed_avro(json.dumps(writer)), is_exact=True)
    columns = AvroDecoder(parsed_avro(json.dumps(reader)), lambda data: (reading, data))
    return columns.decode(pa.array([out.getvalue()], pa.binary()))


class Kinds:
    """Types with a default in JSON, and the value that it is. Named types have new names."""

    def __init__(self) -> None:
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"N{self._count}"

    def draw(self, draw: st.DrawFn, depth: int) -> tuple[Any, Any, Any]:
        names = [
            "int",
            "long",
            "double",
            "string",
            "bytes",
            "boolean",
            "fixed",
            "enum",
            "decimal",
            "millis",
            "uuid",
            "duration",
        ]
        name = draw(st.sampled_from(names + (["array", "map", "record", "union", "union3"] if depth else [])))
        made: tuple[Any, Any, Any] = getattr(self, f"_{name}", self._plain)(draw, name, depth)
        return made

    def _plain(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        values: dict[str, st.SearchStrategy[Any]] = {
            "int": st.integers(-(1 << 31), (1 << 31) - 1), "long": st.integers(-(1 << 63), (1 << 63) - 1),
            "double": st.floats(allow_nan=False, allow_infinity=False), "string": st.text(max_size=4),
            "boolean": st.booleans(),
        }  # fmt: skip
        value = draw(values[name])
        return name, value, value

    def _bytes(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        value = draw(st.binary(max_size=4))
        return "bytes", value.decode("latin-1"), value

    def _fixed(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        value = draw(st.binary(min_size=3, max_size=3))
        return {"type": "fixed", "name": self.name(), "size": 3}, value.decode("latin-1"), value

    def _duration(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        value = draw(st.binary(min_size=12, max_size=12))
        kind = {"type": "fixed", "name": self.name(), "size": 12, "logicalType": "duration"}
        return kind, value.decode("latin-1"), value

    def _decimal(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        value = draw(st.integers(-9999, 9999)).to_bytes(2, "big", signed=True)
        return {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, value.decode("latin-1"), value

    def _millis(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        value = draw(st.integers(0, 10**12))
        return {"type": "long", "logicalType": "timestamp-millis"}, value, value

    def _uuid(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        value = str(draw(st.uuids()))
        return {"type": "string", "logicalType": "uuid"}, value, value

    def _enum(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        return {"type": "enum", "name": self.name(), "symbols": ["A", "B"]}, "B", "B"

    def _array(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        kind, default, value = self.draw(draw, depth - 1)
        count = draw(st.integers(0, 2))
        return {"type": "array", "items": kind}, [default] * count, [value] * count

    def _map(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        kind, default, value = self.draw(draw, depth - 1)
        return {"type": "map", "values": kind}, {"é": default}, {"é": value}

    def _record(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        """A record of two fields: the default has the first, and the second has a default of its own."""
        first, second = self.draw(draw, depth - 1), self.draw(draw, depth - 1)
        kind = record(self.name(), field("x", first[0]), field("y", second[0], default=second[1]))
        return kind, {"x": first[1]}, {"x": first[2], "y": second[2]}

    def _union(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        kind, default, value = self.draw(draw, 0)
        return [kind, "null"], default, value

    def _union3(self, draw: st.DrawFn, name: str, depth: int) -> tuple[Any, Any, Any]:
        kind, default, value = self._record(draw, name, 1)
        return [kind, "null", "int"], default, (kind["name"], value)


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_default_of_a_field_is_the_value_that_its_type_has(data: st.DataObject) -> None:
    kind, default, value = data.draw(st.composite(lambda draw: Kinds().draw(draw, 2))())
    reader = record("R", field("a", "int"), field("f", kind, default=default))
    added = decoded(record("R", field("a", "int")), reader, {"a": 1})
    written = decoded(reader, reader, {"a": 1, "f": value})
    assert not written.bad and not added.bad, (written.reasons, added.reasons)
    assert repr(added.values.to_pylist()) == repr(written.values.to_pylist())


@pytest.mark.parametrize("kind", ["float", "double"])
@given(
    number=st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([1 << 24, 1 << 53, -(1 << 53), 0]),
    more=st.integers(-1, 1),
)
@settings(max_examples=examples(60), deadline=None)
def test_integer_of_another_schema_is_the_same_float_or_a_reason(kind: str, number: int, more: int) -> None:
    number = max(-(1 << 63), min(number + more, (1 << 63) - 1))
    nearest = float(number) if kind == "double" else struct.unpack("<f", struct.pack("<f", number))[0]
    for place, value, shown in (
        (lambda one: one, number, nearest), (lambda one: ["null", one], number, nearest),
        (lambda one: {"type": "array", "items": one}, [number], [nearest]),
        (lambda one: {"type": "map", "values": one}, {"k": number}, [("k", nearest)]),
    ):  # fmt: skip
        found = decoded(record("R", field("p", place("long"))), record("R", field("p", place(kind))), {"p": value})
        if int(nearest) == number:
            assert not found.bad and found.values.to_pylist() == [{"p": shown}]
        else:
            assert found.bad == [0] and f"is {number}, which a {kind} would round" in found.reasons[0]


def test_reason_of_schemas_that_do_not_fit_has_their_types_and_no_marks() -> None:
    found = decoded(record("R", field("p", "long")), record("R", field("p", "int")), {"p": 1})
    assert found.bad == [0] and "long" in found.reasons[0] and "odradek" not in found.reasons[0], found.reasons
    times = {"type": "long", "logicalType": "timestamp-millis"}
    found = decoded(record("R", field("p", times)), record("R", field("p", "string")), {"p": 1})
    assert found.bad == [0] and "odradek" not in found.reasons[0], found.reasons
