"""The decoders of typed values: JSON, Avro and Protobuf as Arrow structs, with the schemas of a registry or of a file.

A decoder takes an array of bytes and returns an array of structs, with the rows that do not decode and the reason of each.
No row changes because of another one. Tried and left: Polars' `json_decode` joins its rows into one document, so that one
value may become two; Arrow's JSON reader ends the process at a top-level null; readers of Avro files take a value's bytes
beyond its end. DuckDB transforms JSON row by row, fastavro and ptars decode Avro and Protobuf value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from ..client.user_errors import UserError
from ..records.avro_reader import AvroReader
from ..records.kept_schemas import KeptSchemas
from ..records.schema_registry import RegistryFailure, Schema, SchemaRegistry, framed
from .avro_decoder import AvroDecoder
from .decoder import Decoder
from .errors import InvalidScan, SchemaRegistryUnavailable
from .inference import Inference
from .json_decoder import JsonDecoder
from .json_schema_types import type_of_json_schema
from .json_text_decoder import JsonTextDecoder
from .protobuf_decoder import ProtobufDecoder
from .value_schema import FORMATS, ValueSchema

T = TypeVar("T")


def decoder_of(named: ValueSchema, topic: str, sample: Callable[[], pa.Array], unit: str = "ns") -> Decoder:
    """The decoder for values of a topic. `sample`: of values, where JSON has no schema. `unit`: us where the caller stores
    microseconds; Protobuf's timestamps then have the years 1 to 9999. Raises InvalidScan, and SchemaRegistryUnavailable, as
    the decoder does."""
    if named.format not in FORMATS:
        raise InvalidScan(f"value_format is {named.format!r}; it takes {', '.join(FORMATS)}")
    if named.registry is not None and named.schema is not None:
        raise InvalidScan("values have a schema, or a registry, not both")
    if named.format != "json" and named.registry is None and named.schema is None:
        raise InvalidScan(f"{named.format} values need a schema file or a schema registry")
    try:
        if named.format == "protobuf":
            return _protobuf_decoder(named, topic, unit)
        return _avro_decoder(named, topic) if named.format == "avro" else _json_decoder(named, topic, sample)
    except RegistryFailure as failure:
        raise SchemaRegistryUnavailable(str(failure)) from None
    except UserError as error:
        raise InvalidScan(str(error)) from None


def _json_decoder(named: ValueSchema, topic: str, sample: Callable[[], pa.Array]) -> Decoder:
    schema = named.schema
    if named.is_free_json:
        return inferred_decoder(Inference.of(sample()))
    if isinstance(schema, pa.Schema):
        return JsonDecoder(pa.struct(list(schema)))
    if isinstance(schema, pa.DataType):
        return JsonDecoder(schema)
    if schema is not None:
        return JsonDecoder(type_of_json_schema(_read(schema)))
    newest = _registry(named).latest(named.subject or f"{topic}-value").schema
    return JsonDecoder(type_of_json_schema(newest.text))


def inferred_decoder(inference: Inference) -> Decoder:
    """The decoder of JSON values by what others have shown: structs, or text."""
    kind = inference.type
    return JsonDecoder(kind) if pa.types.is_struct(kind) else JsonTextDecoder()


def _avro_decoder(named: ValueSchema, topic: str) -> Decoder:
    from ..records.avro_decoding import parsed_schema, schema_of_file

    if named.registry is None:
        schema = schema_of_file(_path(named))
        return AvroDecoder(schema, lambda value: (None, value))
    registry = _registry(named)
    newest = registry.latest(named.subject or f"{topic}-value")
    writers = KeptSchemas(registry, lambda schema: AvroReader(parsed_schema(schema), is_exact=True))

    def writer_of(value: bytes) -> tuple[AvroReader | None, bytes]:
        schema_id, rest = framed(value)
        return None if schema_id == newest.id else writers.get(schema_id), rest

    return AvroDecoder(_of_kind(newest.schema, parsed_schema), writer_of)


def _of_kind(schema: Schema, parse: Callable[[Schema], T]) -> T:
    import fastavro

    try:
        return parse(schema)
    except (ValueError, LookupError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise InvalidScan(f"the registry's schema does not fit: {error}") from None


def _protobuf_decoder(named: ValueSchema, topic: str, unit: str) -> Decoder:
    from ..records.protobuf_decoding import message_of_file, message_of_schema, message_of_value

    if named.registry is None:
        message = message_of_file(_path(named), named.message)
        return ProtobufDecoder(message, lambda value: (message, value), unit)
    registry = _registry(named)
    newest = registry.latest(named.subject or f"{topic}-value").schema
    return ProtobufDecoder(message_of_schema(newest, named.message), message_of_value(registry), unit)


def _registry(named: ValueSchema) -> SchemaRegistry:
    return SchemaRegistry(str(named.registry), named.user_info)


def _path(named: ValueSchema) -> Path:
    if isinstance(named.schema, str | Path):
        return Path(named.schema)
    raise InvalidScan(f"{named.format} values take a schema file")


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidScan(f"cannot read {path}: {error}") from None
