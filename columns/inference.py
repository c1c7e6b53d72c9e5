"""The inferred type of JSON values that have no schema.

`Inference.of(values)` reads values; `widen` joins two inferences. The join is that of sets: but for the order of fields, it
does not depend on the order of the values, nor on where a batch or a commit ends. `type` follows from the whole.

    found = Inference.of(first).widen(Inference.of(second))
    found.type            # pa.struct(...), or pa.string(): JSON text
    str(found)            # one line to show: how many values, which fields, what is no column
    found.json_schema()   # a JSON Schema that fixes the type: `--value-schema FILE`

| values of a field | its type |
|---|---|
| booleans | bool |
| integers of 64 bits | int64 |
| integers of up to 38 digits | decimal128(38, 0) |
| fractions, also with integers that a double has exactly | double |
| text | string |
| objects | struct, up to MOST_FIELDS fields and MOST_LEVELS levels |
| arrays | list |
| null in all values | string |
| any others, and mixed ones | string: the JSON text |

Iceberg has no promotion from long to double, so types of a table that follow from its first commits would depend on where
these end. Hence `odradek archive` infers from the first values of a topic, and makes a table anew that a commit ended before
them (docs/development/tables-notes.md). A scan has no commits: it infers from a sample each time.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ..client.wording import counted
from ..protocol.json_value import JsonObject, JsonValue
from ..records.json_parsing import Literal, NotJson, double_of, is_unicode, parsed
from .json_texts import texts_of

#: Values of a sample from which types follow.
SAMPLE_ROWS = 10_000
#: Fields of an inferred type, at all levels: readers of tables and files slow down with the number of columns.
MOST_FIELDS = 1_000
#: Levels of structs and lists in a type; values of deeper ones are JSON text.
MOST_LEVELS = 32
#: Digits of Iceberg's and Arrow's decimals.
DECIMAL_DIGITS = 38
#: Names that a note lists; it counts the others.
_MOST_NAMED = 5
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
#: The range in which every integer is a double.
_EXACT = 1 << 53

# Kinds of the values of a field, as bits.
_BOOLEAN, _INT64, _DECIMAL, _FRACTION, _TEXT, _OBJECT, _LIST = (1 << bit for bit in range(7))
#: A number that no double is, or that no column has.
_INEXACT, _HUGE = 1 << 7, 1 << 8
_INTEGERS = _INT64 | _DECIMAL


@dataclass(slots=True)
class _Shape:
    """The values of one field. `fields`: None beyond MOST_FIELDS. `items`: of all arrays."""

    kinds: int = 0
    count: int = 0
    fields: dict[str, _Shape] | None = field(default_factory=dict)
    items: _Shape | None = None

    def add(self, value: JsonValue) -> None:
        self.count += 1
        if isinstance(value, dict):
            self.kinds |= _OBJECT
            if self.fields is not None and len(value) > MOST_FIELDS:
                self.fields = None
            for name, one in value.items() if self.fields is not None else ():
                self._field(name).add(one)
            self._limit()
        elif isinstance(value, list):
            self.kinds |= _LIST
            self.items = self.items or _Shape()
            for one in value:
                self.items.add(one)
        else:
            self.kinds |= _kind_of(value)

    def _field(self, name: str) -> _Shape:
        assert self.fields is not None
        found = self.fields.get(name)
        if found is None:
            found = self.fields[name] = _Shape()
        return found

    def _limit(self) -> None:
        if self.fields is not None and len(self.fields) > MOST_FIELDS:
            self.fields = None

    def join(self, other: _Shape) -> None:
        self.kinds |= other.kinds
        self.count += other.count
        if other.items is not None:
            self.items = self.items or _Shape()
            self.items.join(other.items)
        if other.fields is None:
            self.fields = None
        elif self.fields is not None:
            for name, one in other.fields.items():
                self._field(name).join(one)
            self._limit()


@dataclass(frozen=True, slots=True)
class Inference:
    """A type in the making. `rows`: values read; `objects`: those that are JSON objects.

    `outsized`: objects of more than MOST_FIELDS fields, which the type does not follow from.
    """

    rows: int = 0
    objects: int = 0
    outsized: int = 0
    _shape: _Shape = field(default_factory=_Shape)

    @classmethod
    def of(cls, values: pa.Array, rows: int | None = SAMPLE_ROWS) -> Inference:
        """Reads binary or text values, the first `rows` of them that are not null. Others than objects show nothing."""
        values = values.drop_null()
        texts, _ = texts_of(values if rows is None else values.slice(0, rows))
        made = cls(len(texts))
        shape, objects, outsized = made._shape, 0, 0
        for text in texts.to_pylist():
            try:
                value = None if text is None else parsed(text)
            except NotJson:
                continue
            if isinstance(value, dict):
                objects += 1
                if len(value) > MOST_FIELDS:
                    outsized += 1
                else:
                    shape.add(value)
        return replace(made, objects=objects, outsized=outsized)

    def widen(self, other: Inference) -> Inference:
        """The inference from the values of both."""
        shape = _Shape()
        shape.join(self._shape)
        shape.join(other._shape)
        return Inference(self.rows + other.rows, self.objects + other.objects, self.outsized + other.outsized, shape)

    @property
    def type(self) -> pa.DataType:
        """A struct; text where no value is an object with a field that can be a column, or there are too many of them."""
        return self.typed(unknown=pa.string()) or pa.string()

    def typed(self, *, unknown: pa.DataType | None) -> pa.DataType | None:
        """The struct, or None for text. `unknown`: the type of fields that are null in all values; None leaves them out."""
        for levels in range(MOST_LEVELS, 0, -1):
            made = _type_of(self._shape, levels, unknown)
            if made is None or not pa.types.is_struct(made):
                return None
            if field_count(made) <= MOST_FIELDS:
                return made
        return None

    @property
    def left_out(self) -> list[str]:
        """Names that are no columns, with their path: empty ones, and those that differ from others only in case."""
        found: list[str] = []
        _note_left_out(self._shape, "", found)
        return found

    def __str__(self) -> str:
        kind = self.type
        shown = str(kind) if pa.types.is_struct(kind) else "JSON text"
        notes = [f"inferred from {counted(self.rows, 'value')}: {shown}"]
        if self.outsized:
            notes.append(f"passed over: {counted(self.outsized, 'value')} of more than {MOST_FIELDS} fields")
        if not pa.types.is_struct(kind) and self.objects:
            notes.append(f"objects have more than {MOST_FIELDS} fields, or none that can be a column")
        if left_out := self.left_out:
            more = f" and {len(left_out) - _MOST_NAMED} more" if len(left_out) > _MOST_NAMED else ""
            notes.append(f"no columns: {', '.join(map(repr, left_out[:_MOST_NAMED]))}{more}")
        return "; ".join(notes)

    def json_schema(self) -> str:
        """A JSON Schema of the type. Text stands for what a JSON Schema cannot say in columns."""
        return json.dumps(_json_schema_of(self.type), ensure_ascii=False, indent=2)


def _kind_of(value: JsonValue) -> int:
    if value is None:
        return 0
    if isinstance(value, bool):
        return _BOOLEAN
    if isinstance(value, Literal):
        if value.is_integer:
            return _HUGE
        return _FRACTION if double_of(value) is not None else _HUGE
    if isinstance(value, str):
        return _TEXT
    assert isinstance(value, int)
    if _INT64_MIN <= value <= _INT64_MAX:
        is_exact = -_EXACT <= value <= _EXACT or double_of(value) is not None
        return _INT64 if is_exact else _INT64 | _INEXACT
    return _DECIMAL | _INEXACT if abs(value) < 10**DECIMAL_DIGITS else _HUGE


def _type_of(shape: _Shape, levels: int, unknown: pa.DataType | None) -> pa.DataType | None:
    """The type of a field; None leaves it out."""
    kinds = shape.kinds
    if kinds == _OBJECT:
        return _struct_of(shape, levels, unknown) or pa.string()
    if kinds == _LIST:
        return _list_of(shape, levels, unknown)
    if not kinds:
        return unknown
    if kinds == _BOOLEAN:
        return pa.bool_()
    if kinds & ~(_INTEGERS | _INEXACT) == 0:
        return pa.decimal128(DECIMAL_DIGITS, 0) if kinds & _DECIMAL else pa.int64()
    if kinds & ~(_INT64 | _FRACTION) == 0:
        return pa.float64()
    return pa.string()


def _struct_of(shape: _Shape, levels: int, unknown: pa.DataType | None) -> pa.DataType | None:
    """None where the object is text: it has too many fields or levels, or none that can be a column."""
    if shape.fields is None or levels <= 0:
        return None
    left_out = set(_left_out(shape.fields))
    fields = [
        (name, kind)
        for name, one in shape.fields.items()
        if name not in left_out and (kind := _type_of(one, levels - 1, unknown)) is not None
    ]
    return pa.struct(fields) if fields else None


def _list_of(shape: _Shape, levels: int, unknown: pa.DataType | None) -> pa.DataType:
    if levels <= 1:
        return pa.string()
    assert shape.items is not None
    kind = _type_of(shape.items, levels - 1, unknown)
    # Text where all are empty: without a column, these values would be lost to a column that comes with later values.
    return pa.string() if kind is None else pa.list_(kind)


def field_count(kind: pa.DataType) -> int:
    """The fields of a type at all levels."""
    if pa.types.is_struct(kind):
        return sum(1 + field_count(one.type) for one in kind)
    return field_count(kind.value_type) if pa.types.is_list(kind) else 0


def _left_out(fields: dict[str, _Shape]) -> list[str]:
    """Names of an object that are no columns. Of those that differ only in case the most frequent one is a column: engines
    compare names of columns without case.
    """
    unnameable = [name for name in fields if not is_nameable(name)]
    folded = Counter(name.lower() for name in fields)
    alike: dict[str, list[str]] = {}
    for name in fields:
        if folded[name.lower()] > 1 and is_nameable(name):
            alike.setdefault(name.lower(), []).append(name)
    for names in alike.values():
        best = min(names, key=lambda name: (-fields[name].count, name))
        unnameable += [name for name in names if name != best]
    return unnameable


def is_nameable(name: str) -> bool:
    """Returns whether a name can be that of a column."""
    return bool(name) and "\0" not in name and is_unicode(name)


def _note_left_out(shape: _Shape, path: str, names: list[str]) -> None:
    if shape.items is not None:
        _note_left_out(shape.items, f"{path}[]", names)
    for name in _left_out(shape.fields or {}):
        names.append(f"{path}.{name}" if path else name)
    for name, one in (shape.fields or {}).items():
        _note_left_out(one, f"{path}.{name}" if path else name, names)


def _json_schema_of(kind: pa.DataType) -> JsonObject:
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {one.name: _json_schema_of(one.type) for one in kind}}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _json_schema_of(kind.value_type)}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    return {"type": "integer"} if pa.types.is_int64(kind) else {"type": "string"}
