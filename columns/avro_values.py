"""Avro records as columns, by fastavro: the types of columns, and the rows that none has.

| type | column |
|---|---|
| decimal of more than 38 digits | its text: neither DuckDB, nor Spark, nor Iceberg has it |
| duration | struct of months, days and milliseconds |
| union of null and one type, of int and long, of float and double | that type, the wider one |
| any other union | struct of member0, member1 and so on, one for each type but null, as Spark has it |
| a record within itself, and one without fields | JSON text |
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pyarrow as pa

from ..records.avro_logical import AvroType, AvroValue, Logical, logical_type
from ..records.avro_marked import marked, named_types
from ..records.contents import for_json
from ..records.schema_registry import RegistryFailure
from .errors import InvalidScan, SchemaRegistryUnavailable
from .inference import MOST_LEVELS
from .json_values import Decoded

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
_WIDER = ({"int": "long", "long": "long"}, {"float": "double", "double": "double"})
_SHOWN_CHARACTERS = 80
_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError)

Convert = Callable[[AvroValue], AvroValue]


class AvroDecoder:
    """Avro records by fastavro. `writer_of`: the schema that a value was written with, and the rest of its bytes."""

    def __init__(self, reader: AvroType, writer_of: Callable[[bytes], tuple[AvroType, bytes]]) -> None:
        self._reader = reader
        self._writer_of = writer_of
        self._marked: dict[int, tuple[AvroType, AvroType]] = {}
        named = named_types(reader)
        self._has_unions = any(map(_has_unions, (reader, *named.values())))
        found = _AvroColumns(named, self._has_unions).of(reader, "", ())
        self.type = found.type
        self._convert = found.convert
        if not pa.types.is_struct(self.type) or not self.type.num_fields:
            raise InvalidScan("the Avro schema is not a record with fields")

    def decode(self, values: pa.Array) -> Decoded:
        rows, bad, reasons = [], [], []
        for number, value in enumerate(values.to_pylist()):
            try:
                rows.append(None if value is None else self._one(value))
            except RegistryFailure as failure:
                raise SchemaRegistryUnavailable(str(failure)) from None
            except Exception as error:  # fastavro raises what it meets: struct.error, EOFError, KeyError and so on
                rows.append(None)
                bad.append(number)
                reasons.append(_reason(error))
        return _built(rows, self.type, bad, reasons)

    def _one(self, value: bytes) -> AvroValue:
        import fastavro

        writer, rest = self._writer_of(value)
        source = io.BytesIO(rest)
        found = fastavro.schemaless_reader(
            source, self._mark(writer), None if writer is self._reader else self._mark(self._reader),
            return_named_type=self._has_unions,
        )  # fmt: skip
        if source.tell() != len(rest):
            raise ValueError(f"{len(rest) - source.tell()} bytes are left after the record")
        return found if self._convert is None else self._convert(found)

    def _mark(self, schema: AvroType) -> AvroType:
        if id(schema) not in self._marked:
            self._marked[id(schema)] = (schema, marked(schema))
        return self._marked[id(schema)][1]


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the record ends within a field"
    return str(error).partition("\n")[0] or type(error).__name__


# ---- types


class _Column(NamedTuple):
    """`convert`: makes what Arrow takes of a value; None where it takes the value itself."""

    type: pa.DataType
    convert: Convert | None = None


class _AvroColumns:
    """Columns for the types of a schema. `named`: its records, enums and fixed types. `has_names`: whether values of these
    come as pairs of a name and the value, where the writer has a union.
    """

    def __init__(self, named: dict[str, AvroType], has_names: bool) -> None:
        self._named = named
        self._has_names = has_names

    def of(self, schema: AvroType, name: str, within: tuple[str, ...]) -> _Column:
        """`within`: the records around it. Raises InvalidScan for types that no column has."""
        if isinstance(schema, list):
            return self._of_union(schema, name, within)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return _Column(_PLAIN[schema])
            if schema not in self._named:
                raise InvalidScan(f"{name or 'the Avro schema'} is of the type {schema}, which the schema lacks")
            return self.of(self._named[schema], name, within)
        logical = logical_type(schema)
        if logical is None:
            found = self._of_kind(schema, schema["type"], name, within)
        else:
            found = _of_decimal(schema, name) if logical == "decimal" else _Column(_LOGICAL[logical])
        return _unnamed(found) if self._has_names and "name" in schema else found

    def _of_kind(self, schema: AvroType, kind: AvroType, name: str, within: tuple[str, ...]) -> _Column:
        if kind in ("record", "error"):
            return self._of_record(schema, name, within)
        if kind == "array":
            return _of_array(self.of(schema["items"], f"{name}[]", (*within, "")))
        if kind == "map":
            return _of_map(self.of(schema["values"], f"{name}{{}}", (*within, "")))
        if kind == "fixed":
            return _Column(pa.binary(int(schema["size"])))
        return _Column(pa.string()) if kind == "enum" else self.of(kind, name, within)

    def _of_record(self, schema: AvroType, name: str, within: tuple[str, ...]) -> _Column:
        full = schema["name"]
        if full in within or len(within) > MOST_LEVELS or (within and not schema["fields"]):
            return _Column(pa.string(), _json_text)
        found = {
            one["name"]: self.of(one["type"], f"{name}.{one['name']}", (*within, full)) for one in schema["fields"]
        }
        converts = {field: one.convert for field, one in found.items() if one.convert is not None}
        kind = pa.struct([(field, one.type) for field, one in found.items()])
        return _Column(kind, (lambda value: _converted_fields(value, converts)) if converts else None)

    def _of_union(self, schema: AvroType, name: str, within: tuple[str, ...]) -> _Column:
        branches = [one for one in schema if one != "null"]
        if not branches:
            return _Column(pa.null())
        if len(branches) == 1:
            found = self.of(branches[0], name, within)
            inner = found.convert
            return _Column(found.type, inner and (lambda value: None if value is None else inner(value)))
        for wider in _WIDER:
            if all(isinstance(one, str) and one in wider for one in branches):
                return _Column(_PLAIN[wider[branches[0]]])
        columns = [self.of(one, f"{name}.member{at}", (*within, "")) for at, one in enumerate(branches)]
        kinds = [(self._kind(one), self._base(one)) for one in branches]
        return _Column(
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

    def __init__(self, kinds: list[tuple[str, str]], columns: list[_Column], name: str) -> None:
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
            raise ValueError(f"{self._name} is {_shown(value)}, which is of no type of the union")
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


_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",), int: ("long", "int"), float: ("double", "float"), str: ("string", "enum"), bytes: ("bytes", "fixed"),
    list: ("array",), dict: ("map", "record", "error"),
}  # fmt: skip


def _has_unions(schema: AvroType) -> bool:
    """Returns whether a union has more than one type but null."""
    if isinstance(schema, list):
        return len([one for one in schema if one != "null"]) > 1 or any(map(_has_unions, schema))
    if not isinstance(schema, dict):
        return False
    inner = [schema.get(name) for name in ("type", "items", "values")]
    return any(map(_has_unions, [*inner, *(one["type"] for one in schema.get("fields", ()))]))


def _unnamed(column: _Column) -> _Column:
    convert = column.convert or (lambda value: value)
    return _Column(column.type, lambda value: convert(value[1] if type(value) is tuple else value))


def _of_decimal(schema: AvroType, name: str) -> _Column:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not 0 <= scale <= precision:
        raise InvalidScan(f"{name.lstrip('.')}: a decimal has a precision of {precision} and a scale of {scale}")
    if precision > _MOST_DIGITS:
        return _Column(pa.string(), lambda value: format(value, "f"))
    return _Column(pa.decimal128(precision, scale))


def _of_array(item: _Column) -> _Column:
    convert = item.convert
    return _Column(pa.list_(item.type), convert and (lambda value: [convert(one) for one in value]))


def _of_map(item: _Column) -> _Column:
    convert = item.convert
    made = pa.map_(pa.string(), item.type)
    return _Column(made, convert and (lambda value: {key: convert(one) for key, one in value.items()}))


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


# ---- rows


def _built(rows: list[AvroValue], kind: pa.DataType, bad: list[int], reasons: list[str]) -> Decoded:
    """Rows as an array; those that Arrow does not take are bad, too."""
    try:
        return Decoded(pa.array(rows, kind), bad, reasons)
    except _MISFITS:
        found = dict(zip(bad, reasons, strict=True))
        for number, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except _MISFITS as error:
                found[number], rows[number] = _misfit(row, kind, "") or str(error).partition("\n")[0], None
        numbers = sorted(found)
        return Decoded(pa.array(rows, kind), numbers, [found[one] for one in numbers])


def _misfit(value: AvroValue, kind: pa.DataType, name: str) -> str | None:
    """The first field that Arrow does not take, with its type."""
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        parts = [(value.get(one.name), one.type, f"{name}.{one.name}") for one in kind]
    elif pa.types.is_list(kind) and isinstance(value, list):
        parts = [(one, kind.value_type, f"{name}[]") for one in value]
    elif pa.types.is_map(kind) and isinstance(value, dict):
        parts = [(one, kind.item_type, f"{name}{{}}") for one in value.values()]
    else:
        try:
            pa.array([value], kind)
        except _MISFITS:
            return f"{name.lstrip('.') or 'the value'} is {_shown(value)}, not {kind}"
        return None
    return next((found for part in parts if (found := _misfit(*part)) is not None), None)


def _shown(value: AvroValue) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
