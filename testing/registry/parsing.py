"""Parses a schema by the library of its kind, which is imported then."""

from __future__ import annotations

from .schemas import AVRO, JSON, KINDS, PROTOBUF, Parsed, RegistryError, SchemaText, invalid_schema


def parse(schema: SchemaText) -> Parsed:
    """Raises RegistryError 42201 for a schema that is not one, and 50101 where the library of its kind is not installed."""
    try:
        if schema.kind == AVRO:
            from .avro_schema import AvroSchema

            return AvroSchema(schema)
        if schema.kind == JSON:
            from .json_schema import JsonSchema

            return JsonSchema(schema)
        if schema.kind == PROTOBUF:
            from .protobuf_schema import ProtobufSchema

            return ProtobufSchema(schema)
    except ImportError as missing:
        raise RegistryError(
            50101, f"{schema.kind} schemas need {missing.name}: pip install 'odradek[registry]'"
        ) from None
    raise invalid_schema(f"schemaType {schema.kind!r} is not one of {', '.join(KINDS)}")
