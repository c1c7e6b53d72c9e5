"""The types of JSON Schemas in Arrow."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from .errors import InvalidScan
from .inference import MOST_LEVELS, is_nameable

_JSON_SCHEMA_TYPES = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def type_of_json_schema(text: str) -> pa.DataType:
    """The type of a JSON Schema with properties. What it cannot say in columns, as `oneOf`, is text."""
    try:
        found = _of_json_schema(json.loads(text), 0)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidScan(f"not a JSON Schema: {error}") from None
    if not pa.types.is_struct(found):
        raise InvalidScan("the JSON Schema has no properties")
    return found


def _of_json_schema(schema: Any, level: int) -> pa.DataType:
    if isinstance(schema, bool):  # of any value, of none
        return pa.string()
    kinds = schema.get("type")
    kinds = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if one != "null"]
    kind = kinds[0] if len(kinds) == 1 else None
    if level < MOST_LEVELS:
        if kind in ("object", None) and isinstance(schema.get("properties"), dict):
            fields = [(name, one) for name, one in schema["properties"].items() if is_nameable(name)]
            if fields:
                return pa.struct([(name, _of_json_schema(one, level + 1)) for name, one in fields])
        if kind == "array" and isinstance(schema.get("items"), dict):
            return pa.list_(_of_json_schema(schema["items"], level + 1))
    return _JSON_SCHEMA_TYPES.get(str(kind), pa.string())
