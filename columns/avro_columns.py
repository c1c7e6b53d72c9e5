"""The columns of Avro types.

| type | column |
|---|---|
| decimal of more than 38 digits | its text: neither DuckDB, nor Spark, nor Iceberg has it |
| duration | struct of months, days and milliseconds |
| union of null and one type, of int and long, of float and double | that type, the wider one |
| any other union | struct of member0, member1 and so on, one for each type but null, as Spark has it |
| a record within itself, and one without fields | JSON text |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pyarrow as pa

from ..records.avro_logical import AvroType, AvroValue, Logical, logical_type
from ..records.contents import for_json
from .errors import InvalidScan
from .inference import MOST_LEVELS
from .most_columns import MOST_COLUMNS, too_many_columns
from .shown_value import shown_value

_PLAIN = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_DURATION = pa.struct([(name, pa.uint32()) for name in ("months", "days", "milliseconds")])
_LOGICAL = {
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"), "uuid": pa.string(),
    "big-decimal": pa.string(), "duration": _DURATION,
    **{
        f"{local}timestamp-{name}": pa.timestamp(unit, tz=zone)
        for local, zone in (("", "UTC"), ("local-", None))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}  # fmt: skip
#: Digits of the decimals of DuckDB, Spark and Iceberg.
_MOST_DIGITS = 38
_SHOWN_CHARACTERS = 80
_WIDER = ({"int": "long", "long": "long"}, {"float": "double", "double": "double"})
_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",), int: ("long", "int"), float: ("double", "float"), str: ("string", "enum"), bytes: ("bytes", "fixed"),
    list: ("array",), dict: ("map", "record", "error"),
}  # fmt: skip

Convert = Callable[[AvroValue], AvroValue]


class AvroColumn(NamedTuple):
    """`convert`: makes what Arrow takes of a value; None where it takes the value itself."""

    type: pa.DataType
    convert: Convert | None = None


class AvroColumns:
    """Columns for the types of a schema. `named`: its records, enums and fixed types. `has_names`: whether values of these
    come as pairs of a name and the value, where the writer has a union.
    """

    def __init__(self, named: dict[str, AvroType], has_names: bool) -> None:
        self._named = named
        self._has_names = has_names
        self._count = 0

    def of(self, schema: AvroType, name: str, within: tuple[str, ...]) -> AvroColumn:
        """`within`: the records around it. Raises InvalidScan for types that no column has."""
        self._count += 1
        if self._count > MOST_COLUMNS:
            raise too_many_columns("Avro")
        if isinstance(schema, list):
            return self._of_union(schema, name, within)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return AvroColumn(_PLAIN[schema])
            if schema not in self._named:
                raise InvalidScan(f"{name or 'the Avro schema'} is of the type {schema}, which the schema lacks")
            return self.of(self._named[schema], name, within)
        logical = logical_type(schema)
        if logical is None:
            found = self._of_kind(schema, schema["type"], name, within)
        else:
            found = _of_decimal(schema, name) if logical == "decimal" else AvroColumn(_LOGICAL[logical])
        return _unnamed(found) if self._has_names and "name" in schema else found

    def _of_kind(self, schema: AvroType, kind: AvroType, name: str, within: tuple[str, ...]) -> AvroColumn:
        if kind in ("record", "error"):
            return self._of_record(schema, name, within)
        if kind == "array":
            return _of_array(self.of(schema["items"], f"{name}[]", (*within, "")))
        if kind == "map":
            return _of_map(self.of(schema["values"], f"{name}{{}}", (*within, "")))
        if kind == "fixed":
            return AvroColumn(pa.binary(int(schema["size"])))
        return AvroColumn(pa.string()) if kind == "enum" else self.of(kind, name, within)

    def _of_record(self, schema: AvroType, name: str, within: tuple[str, ...]) -> AvroColumn:
        full = schema["name"]
        if full in within or len(within) > MOST_LEVELS or (within and not schema["fields"]):
            return AvroColumn(pa.string(), _json_text)
        found = {
            one["name"]: self.of(one["type"], f"{name}.{one['name']}", (*within, full)) for one in schema["fields"]
        }
        converts = {field: one.convert for field, one in found.items() if one.convert is not None}
        kind = pa.struct([(field, one.type) for field, one in found.items()])
        return AvroColumn(kind, (lambda value: _converted_fields(value, converts)) if converts else None)

    def _of_union(self, schema: AvroType, name: str, within: tuple[str, ...]) -> AvroColumn:
        branches = [one for one in schema if one != "null"]
        if not branches:
            return AvroColumn(pa.null())
        if len(branches) == 1:
            found = self.of(branches[0], name, within)
            inner = found.convert
            return AvroColumn(found.type, inner and (lambda value: None if value is None else inner(value)))
        for wider in _WIDER:
            if all(isinstance(one, str) and one in wider for one in branches):
                return AvroColumn(_PLAIN[wider[branches[0]]])
        columns = [self.of(one, f"{name}.member{at}", (*within, "")) for at, one in enumerate(branches)]
        kinds = [(self._kind(one), self._base(one)) for one in branches]
        return AvroColumn(
            pa.struct([(f"member{at}", one.type) for at, one in enumerate(columns)]), _Members(kinds, columns, name)
        )

    def _base(self, branch: AvroType) -> str:
        """The Avro type of a branch that has a name."""
        found = self._named.get(branch, branch) if isinstance(branch, str) else branch
        return str(found["type"]) if isinstance(found, dict) and "name" in found else ""

    def _kind(self, branch: AvroType) -> str:
        """The name of a branch: a logical type, the full name of a type, or a plain type."""
        if isinstance(branch, str):
            return branch
        if "name" in branch:
            return str(branch["name"])
        return logical_type(branch) or (
            branch["type"] if isinstance(branch["type"], str) else self._kind(branch["type"])
        )


class _Members:
    """Makes a struct of a value of a union, with the value in the field of its type."""

    def __init__(self, kinds: list[tuple[str, str]], columns: list[AvroColumn], name: str) -> None:
        """`kinds`: the names of the types, and the Avro types of those with names of their own."""
        numbered = list(enumerate(kinds))
        self._places = {base: number for number, (_, base) in reversed(numbered) if base}
        self._places |= {kind: number for number, (kind, _) in reversed(numbered)}
        self._columns = columns
        self._name = name.lstrip(".")

    def __call__(self, value: AvroValue) -> AvroValue:
        if value is None:
            return None
        number = next((self._places[one] for one in _kinds_of(value) if one in self._places), None)
        if number is None:
            raise ValueError(
                f"{self._name} is {shown_value(value, _SHOWN_CHARACTERS)}, which is of no type of the union"
            )
        inner = value[1] if type(value) is tuple else value
        inner = inner.value if isinstance(inner, Logical) else inner
        convert = self._columns[number].convert
        return {f"member{number}": inner if convert is None else convert(inner)}


def _kinds_of(value: AvroValue) -> Iterable[str]:
    """The names that the branch of a value may have, most likely one first."""
    if isinstance(value, Logical):
        return (value.kind,)
    if isinstance(value, tuple):
        return (value[0],)
    return _KINDS.get(type(value), ())


def has_unions(schema: AvroType) -> bool:
    """Returns whether a union has more than one type but null."""
    if isinstance(schema, list):
        return len([one for one in schema if one != "null"]) > 1 or any(map(has_unions, schema))
    if not isinstance(schema, dict):
        return False
    inner = [schema.get(name) for name in ("type", "items", "values")]
    return any(map(has_unions, [*inner, *(one["type"] for one in schema.get("fields", ()))]))


def _unnamed(column: AvroColumn) -> AvroColumn:
    convert = column.convert or (lambda value: value)
    return AvroColumn(column.type, lambda value: convert(value[1] if type(value) is tuple else value))


def _of_decimal(schema: AvroType, name: str) -> AvroColumn:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not 0 <= scale <= precision:
        raise InvalidScan(f"{name.lstrip('.')}: a decimal has a precision of {precision} and a scale of {scale}")
    if precision > _MOST_DIGITS:
        return AvroColumn(pa.string(), lambda value: format(value, "f"))
    return AvroColumn(pa.decimal128(precision, scale))


def _of_array(item: AvroColumn) -> AvroColumn:
    convert = item.convert
    return AvroColumn(pa.list_(item.type), convert and (lambda value: [convert(one) for one in value]))


def _of_map(item: AvroColumn) -> AvroColumn:
    convert = item.convert
    made = pa.map_(pa.string(), item.type)
    return AvroColumn(made, convert and (lambda value: {key: convert(one) for key, one in value.items()}))


def _converted_fields(value: dict[str, AvroValue], converts: dict[str, Convert]) -> dict[str, AvroValue]:
    return value | {name: convert(value[name]) for name, convert in converts.items()}


def _json_text(value: AvroValue) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=for_json)


def _plain(value: AvroValue) -> AvroValue:
    """A value without the names of types."""
    if isinstance(value, Logical):
        return _plain(value.value)
    if isinstance(value, tuple):
        return {value[0]: _plain(value[1])}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
