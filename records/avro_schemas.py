"""Avro schemas, parsed within limits: a registry may return any, and a value of a few bytes must stay a small one.

A value that takes no bytes, as a null, can stand in a list a billion times, and records within records double at each level.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..client.wording import counted

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema

#: Bytes of a `fixed`: the largest records of brokers have fewer.
_MOST_FIXED = 16 << 20
_MOST_DEPTH = 64
#: Values within the smallest value of a type, for each of its bytes, and besides.
_VALUES_PER_BYTE, _MOST_VALUES = 16, 10_000
#: Bytes of the smallest value of a type; those that are missing have one.
_BYTES = {"null": 0, "float": 4, "double": 8}


def parsed_avro(text: str, references: Iterable[str] = ()) -> AvroSchema:
    """The schema of a JSON text. `references`: those that it names, inner ones first. Raises ValueError."""
    import fastavro

    named: dict[str, AvroSchema] = {}
    limits = _Limits()
    try:
        for one in (*references, text):
            schema = json.loads(one)
            limits.check(schema)
            parsed = fastavro.parse_schema(schema, named_schemas=named)
    except (RecursionError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"the schema is not Avro: {type(error).__name__}") from None
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError) as error:
        raise ValueError(f"the schema is not Avro: {error}") from None
    return parsed


class _Least(NamedTuple):
    """The smallest value of a type: its bytes, and the number of values in it."""

    bytes: int
    values: int


class _Limits:
    def __init__(self) -> None:
        #: Named types, by their last names.
        self._named: dict[str, _Least] = {}

    def check(self, schema: object) -> None:
        """Raises ValueError."""
        self._least(schema, 0)

    def _least(self, schema: object, depth: int) -> _Least:
        if depth > _MOST_DEPTH:
            raise ValueError(f"types are nested deeper than {_MOST_DEPTH} levels")
        if isinstance(schema, str):
            return self._named.get(schema.rpartition(".")[2], _Least(_BYTES.get(schema, 1), 1))
        if isinstance(schema, list):
            for one in schema:
                self._least(one, depth + 1)
            return _Least(1, 1)
        if not isinstance(schema, dict):
            raise ValueError(f"{str(schema)[:40]} is not a type")
        kind = schema.get("type")
        if kind in ("array", "map"):
            return self._of_items(schema, str(kind), depth)
        if kind in ("record", "error"):
            return self._of_record(schema, depth)
        if kind == "fixed":
            return self._of_fixed(schema)
        if kind == "enum":
            return self._noted(schema, _Least(1, 1), self._named.get(_last_name(schema)))
        return self._least(kind, depth + 1)

    def _of_items(self, schema: dict[str, object], kind: str, depth: int) -> _Least:
        inner = self._least(schema.get("items" if kind == "array" else "values"), depth + 1)
        size = inner.bytes if kind == "array" else inner.bytes + 1  # a key takes a byte
        if inner.values > _VALUES_PER_BYTE * size:
            raise ValueError(f"an item of its {kind} has {counted(inner.values, 'value')} in {size} bytes")
        return _Least(1, 1)

    def _of_record(self, schema: dict[str, object], depth: int) -> _Least:
        fields, other = schema.get("fields"), self._named.get(_last_name(schema))
        if not isinstance(fields, list):
            raise ValueError("a record has no fields")
        self._named.setdefault(_last_name(schema), _Least(1, 1))  # a field may name the record itself
        found = [self._least(one.get("type") if isinstance(one, dict) else one, depth + 1) for one in fields]
        least = _Least(sum(one.bytes for one in found), 1 + sum(one.values for one in found))
        if least.values > _MOST_VALUES + _VALUES_PER_BYTE * least.bytes:
            raise ValueError(f"a record has {counted(least.values, 'value')} in {least.bytes} bytes")
        return self._noted(schema, least, other)

    def _of_fixed(self, schema: dict[str, object]) -> _Least:
        size = schema.get("size")
        if not isinstance(size, int) or not 0 <= size <= _MOST_FIXED:
            raise ValueError(f"a fixed of {str(size)[:40]} bytes; the most are {_MOST_FIXED}")
        return self._noted(schema, _Least(size, 1), self._named.get(_last_name(schema)))

    def _noted(self, schema: dict[str, object], least: _Least, other: _Least | None) -> _Least:
        """`other`: the type of another namespace with this last name. What either allows is limited."""
        if other is not None:
            least = _Least(min(least.bytes, other.bytes), max(least.values, other.values))
        self._named[_last_name(schema)] = least
        return least


def _last_name(schema: dict[str, object]) -> str:
    return str(schema.get("name")).rpartition(".")[2]
