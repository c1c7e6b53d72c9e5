"""Avro values, decoded by fastavro (`odradek[decoding]`)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.errors import Misused
from .schema_registry import Schema, SchemaRegistry, framed

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema

    from .consumed import Content


def avro_from_file(path: Path) -> Callable[[bytes], Content]:
    """Values without a schema's id, written with the schema of a .avsc file."""
    import fastavro

    parsed = schema_of_file(path)
    return lambda data: fastavro.schemaless_reader(io.BytesIO(data), parsed, None)


def schema_of_file(path: Path) -> AvroSchema:
    """The parsed schema of a .avsc file. Raises Misused."""
    import fastavro

    try:
        return fastavro.parse_schema(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise Misused(f"{path} is not an Avro schema: {error}") from None


def avro_from_registry(registry: SchemaRegistry) -> Callable[[bytes], Content]:
    import fastavro

    parsed: dict[int, AvroSchema] = {}

    def decode(data: bytes) -> Content:
        schema_id, rest = framed(data)
        if schema_id not in parsed:
            parsed[schema_id] = parsed_schema(registry.schema(schema_id))
        return fastavro.schemaless_reader(io.BytesIO(rest), parsed[schema_id], None)

    return decode


def parsed_schema(schema: Schema) -> AvroSchema:
    """A schema of a registry, with those that it refers to. Raises ValueError for one of another kind."""
    import fastavro

    if schema.kind != "AVRO":
        raise ValueError(f"its schema is {schema.kind}")
    named: dict[str, AvroSchema] = {}
    for text in reversed(schema.references.values()):  # inner ones come last
        fastavro.parse_schema(json.loads(text), named_schemas=named)
    return fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
