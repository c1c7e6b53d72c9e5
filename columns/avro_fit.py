"""The check whether columns of Arrow can be written with an Avro schema: by their types, before any value.

A type fits where each of its values has the same meaning in Avro, or is an error of the encoder (a number that is too large,
a time that it would round). What the encoder would round silently, as a double in a float, does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from ..records.avro_logical import AvroType, logical_type
from ..records.avro_marked import named_types
from .arrow_kinds import (
    is_bytes,
    is_double,
    is_exact_number,
    is_list,
    is_local_time,
    is_moment,
    is_small_float,
    is_text,
)
from .misfit import Misfit

_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "boolean": pa.types.is_boolean,
    "int": pa.types.is_integer,
    "long": pa.types.is_integer,
    "float": is_small_float,
    "double": lambda kind: is_double(kind) or pa.types.is_integer(kind),
    "string": is_text,
    "enum": is_text,
    "bytes": is_bytes,
    "fixed": is_bytes,
    "date": pa.types.is_date,
    "decimal": is_exact_number,
    "big-decimal": is_exact_number,
    "uuid": is_text,
    **dict.fromkeys(("time-millis", "time-micros"), pa.types.is_time),
    **{f"timestamp-{unit}": is_moment for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": is_local_time for unit in ("millis", "micros", "nanos")},
}


def check_avro(kind: pa.DataType, schema: AvroType, name: str) -> None:
    """Raises Misfit for a column of another type than its schema, which fastavro has parsed."""
    _Fit(named_types(schema)).check(kind, schema, name)


class _Fit:
    def __init__(self, named: dict[str, AvroType]) -> None:
        self._named = named

    def check(self, kind: pa.DataType, schema: AvroType, name: str) -> None:
        if isinstance(schema, list):
            branches = [one for one in schema if one != "null"]
            if pa.types.is_null(kind) and len(branches) < len(schema):
                return
            if len(branches) != 1:
                raise Misfit(
                    f"the column {name} is a union of {len(branches)} types in the schema; "
                    "only unions of null and one type can be written"
                )
            self.check(kind, branches[0], name)
            return
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        avro = schema if isinstance(schema, str) else logical_type(schema) or schema["type"]
        if not isinstance(avro, str):
            self.check(kind, avro, name)
        elif avro in ("record", "error") and pa.types.is_struct(kind):
            self._check_record(kind, schema, name)
        elif avro == "array" and is_list(kind):
            self.check(kind.value_type, schema["items"], f"{name}[]")
        elif avro == "map" and pa.types.is_map(kind) and is_text(kind.key_type):
            self.check(kind.item_type, schema["values"], f"{name}{{}}")
        elif not (pa.types.is_null(kind) if avro == "null" else _FITS.get(avro, pa.types.is_null)(kind)):
            raise Misfit(f"the column {name} is {kind}, and the schema has {avro}")

    def _check_record(self, kind: pa.DataType, schema: AvroType, name: str) -> None:
        fields = {one["name"]: one for one in schema["fields"]}
        for column in kind:
            if column.name not in fields:
                raise Misfit(f"the schema has no field for the column {name}.{column.name}; it has {', '.join(fields)}")
            self.check(column.type, fields[column.name]["type"], f"{name}.{column.name}")
        for field in fields.values():
            is_optional = "default" in field or (isinstance(field["type"], list) and "null" in field["type"])
            if kind.get_field_index(field["name"]) < 0 and not is_optional:
                raise Misfit(f"there is no column {name}.{field['name']}, whose field in the schema has no default")
