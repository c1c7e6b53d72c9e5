"""Values decoded with a schema of Avro by fastavro (`odradek[decoding]`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.user_errors import Misused
from .avro_reader import AvroReader
from .avro_schemas import parsed_avro
from .kept_schemas import KeptSchemas
from .schema_registry import Schema, SchemaRegistry, framed

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema

    from .contents import Content


def avro_from_file(path: Path) -> Callable[[bytes], Content]:
    """Values without a schema's id, written with the schema of a .avsc file."""
    reader = AvroReader(schema_of_file(path), as_text=True)
    return lambda data: _read_avro(reader, data)


def schema_of_file(path: Path) -> AvroSchema:
    """The parsed schema of a .avsc file. Raises Misused."""
    try:
        return parsed_avro(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Misused(f"{path} is not an Avro schema: {error}") from None


def avro_from_registry(registry: SchemaRegistry) -> Callable[[bytes], Content]:
    parsed = KeptSchemas(registry, lambda schema: AvroReader(parsed_schema(schema), as_text=True))

    def decode(data: bytes) -> Content:
        schema_id, rest = framed(data)
        return _read_avro(parsed.get(schema_id), rest)

    return decode


def _read_avro(reader: AvroReader, data: bytes) -> Content:
    """The value of the bytes, which are all of its bytes, as JSON has it. Raises ValueError, and what fastavro raises."""
    try:
        found: Content = reader.read(data)
    except EOFError:
        raise ValueError("the value ends within a field") from None
    return found


def parsed_schema(schema: Schema) -> AvroSchema:
    """A schema of a registry, with those that it refers to. Raises ValueError for one of another kind."""
    if schema.kind != "AVRO":
        raise ValueError(f"its schema is {schema.kind[:40]}")
    return parsed_avro(schema.text, reversed(schema.references.values()))  # inner ones come last
