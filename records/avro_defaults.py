"""The defaults of a schema as its values: what a reader has for a field that the writer's schema lacks.

fastavro takes the JSON of a default for the value: the characters of bytes for their UTF-8, the number of a record for the
whole of it without the defaults of its fields. So each default is written, and read, as any value.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

from .avro_input import AvroInput
from .avro_logical import AvroType, AvroValue
from .avro_marked import marked


def marked_with_defaults(schema: AvroType, *, named: bool) -> AvroType:
    """As `marked`, with values as defaults. `named`: values of named types in unions are pairs of the name and the value."""
    made, given = marked(schema), AvroInput(schema)
    if not isinstance(made, dict):
        return made
    definitions = made["__named_schemas"]
    found: list[tuple[AvroType, AvroValue]] = []
    for fields in _fields(
        [{name: one for name, one in made.items() if name != "__named_schemas"}, *definitions.values()]
    ):
        for field in fields:
            if "default" in field:
                with contextlib.suppress(ValueError):  # no value of its type: the record that needs it has the reason
                    value = given.default(field["type"], field["default"], field["name"])
                    found.append((field, _read_back(field["type"], definitions, value, named=named)))
    for field, value in found:
        field["default"] = value
    return made


def _read_back(kind: AvroType, definitions: dict[str, AvroType], value: AvroValue, *, named: bool) -> AvroValue:
    import fastavro

    schema: dict[str, AvroType] = {
        "type": "record",
        "name": "odradek.Default",
        "fields": [{"name": "value", "type": kind}],
    }
    schema |= {"__fastavro_parsed": True, "__named_schemas": definitions | {"odradek.Default": schema}}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"value": value})
    out.seek(0)
    found: AvroValue = fastavro.schemaless_reader(out, schema, None, return_named_type=named)
    return found["value"]


def _fields(schemas: list[AvroType]) -> Iterator[list[AvroType]]:
    """The fields of all records of schemas, inner ones too."""
    for schema in schemas:
        if isinstance(schema, list):
            yield from _fields(schema)
        elif isinstance(schema, dict):
            fields = schema.get("fields", [])
            yield fields
            yield from _fields([schema[one] for one in ("items", "values") if one in schema])
            yield from _fields([one["type"] for one in fields])
