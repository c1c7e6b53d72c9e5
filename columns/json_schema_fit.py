"""The check whether columns of Arrow can be values of a JSON Schema: by the types of its properties, before any value.

What a schema has besides types and names (`oneOf`, patterns, limits) is not checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa

from .arrow_kinds import is_list, is_number
from .misfit import Misfit

_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "integer": pa.types.is_integer,
    "number": is_number,
    "boolean": pa.types.is_boolean,
    "array": is_list,
    "object": lambda kind: pa.types.is_struct(kind) or pa.types.is_map(kind),
    "null": pa.types.is_null,
}


def check_json_schema(kind: pa.DataType, text: str, name: str) -> None:
    """Raises Misfit for columns of other types than the schema has, or that it lacks or needs, and for what is no schema."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misfit(f"the registry's schema of the column {name} is not JSON: {error}") from None
    _check(kind, schema, name)


def _check(kind: pa.DataType, schema: object, name: str) -> None:
    if not isinstance(schema, dict) or pa.types.is_null(kind):
        return
    kinds = schema.get("type")
    named = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(one, str)]
    if named and not any(_FITS.get(one, _is_shown_as_text)(kind) for one in named):
        raise Misfit(f"the column {name} is {kind}, and the JSON Schema has {' or '.join(named)}")
    if pa.types.is_struct(kind):
        _check_object(kind, schema, name)
    elif is_list(kind):
        _check(kind.value_type, schema.get("items"), f"{name}[]")


def _is_shown_as_text(kind: pa.DataType) -> bool:
    return not is_number(kind) and not pa.types.is_boolean(kind) and not pa.types.is_nested(kind)


def _check_object(kind: pa.DataType, schema: dict[str, object], name: str) -> None:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    for column in kind:
        path = f"{name}.{column.name}"
        if column.name in properties:
            _check(column.type, properties[column.name], path)
        elif schema.get("additionalProperties") is False:
            raise Misfit(f"the JSON Schema has no property for the column {path}; it has {', '.join(properties)}")
    required = schema.get("required")
    for one in required if isinstance(required, list) else []:
        if kind.get_field_index(str(one)) < 0:
            raise Misfit(f"there is no column {name}.{one}, which the JSON Schema requires")
