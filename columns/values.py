"""Typed values: JSON, Avro and Protobuf as Arrow structs, with the schemas of a registry or of a file.

A decoder takes an array of bytes and returns an array of structs, with the rows that do not decode and the reason of each.
No row changes because of another one. Tried and left: Polars' `json_decode` joins its rows into one document, so that one
value may become two; Arrow's JSON reader ends the process at a top-level null; readers of Avro files take a value's bytes
beyond its end. DuckDB transforms JSON row by row, fastavro and ptars decode Avro and Protobuf value by value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..client.user_errors import UserError
from ..records.schema_registry import RegistryFailure, Schema, SchemaRegistry, framed
from .avro_values import AvroDecoder
from .errors import InvalidScan, SchemaRegistryUnavailable
from .inference import MOST_LEVELS, SAMPLE_ROWS, Inference
from .json_values import Decoded, JsonDecoder, JsonTextDecoder
from .protobuf_values import ProtobufDecoder

if TYPE_CHECKING:
    from ..admin.connection import Connection

FORMATS = ("json", "avro", "protobuf")
#: In place of a schema of JSON: the type follows from the values, in a table, too.
INFER = "infer"
T = TypeVar("T")
_TEXT = pa.string()


class Decoder(Protocol):
    """`type`: of the values that `decode` makes, structs or JSON text."""

    type: pa.DataType

    def decode(self, values: pa.Array) -> Decoded: ...


# ---- JSON


def json_type_of(values: pa.Array, rows: int = SAMPLE_ROWS, unknown: pa.DataType | None = _TEXT) -> pa.DataType:
    """The struct that a sample of JSON values shows. Raises InvalidScan where there is none.

    `unknown`: of a field that is null in all of them; None leaves the field out.
    """
    found = Inference.of(values, rows).typed(unknown=unknown)
    if found is None:
        raise InvalidScan("no value is a JSON object with a field that has a value: name a schema")
    return found


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
    if schema is True:
        return pa.string()
    kinds = schema.get("type")
    kinds = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if one != "null"]
    kind = kinds[0] if len(kinds) == 1 else None
    if level < MOST_LEVELS:
        if kind in ("object", None) and isinstance(schema.get("properties"), dict) and schema["properties"]:
            fields = schema["properties"].items()
            return pa.struct([(str(name), _of_json_schema(one, level + 1)) for name, one in fields])
        if kind == "array" and isinstance(schema.get("items"), dict):
            return pa.list_(_of_json_schema(schema["items"], level + 1))
    return _JSON_SCHEMA_TYPES.get(str(kind), pa.string())


def floored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps of nanoseconds without the digits that a type of microseconds lacks."""
    is_finer = pa.types.is_timestamp(values.type) and values.type.unit == "ns"
    if is_finer and pa.types.is_timestamp(kind) and kind.unit == "us":
        number = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(False) // 1000  # Arrow's floor wraps at -2^63
        return pa.array(number, pa.timestamp("us", values.type.tz), mask=values.is_null().to_numpy(False))
    return values


# ---- schemas


class ValueSchema(NamedTuple):
    """Names the schema of values. `format`: json, avro or protobuf. `schema`: an Arrow schema or a file; `registry`: a URL.

    `message`: of Protobuf, the first one of the file otherwise. `subject`: of the registry, TOPIC-value otherwise; its
    newest schema has the columns, and each value is decoded by the schema whose id it has.

    JSON without a schema: a scan infers the type from a sample (inference.py). A table has JSON text, unless `schema` is
    INFER.
    """

    format: str
    schema: pa.Schema | pa.DataType | str | Path | None = None
    registry: str | None = None
    message: str | None = None
    subject: str | None = None
    user_info: str | None = None

    @classmethod
    def of_options(
        cls, connection: Connection, form: str, schema: str | Path | None, registry: str | None, message: str | None
    ) -> ValueSchema:
        """Returns the schema that a command's options name. For JSON, only an option names a registry."""
        if form != "json":
            registry = connection.registry_url(registry, None if schema is None else Path(schema))
        return cls(form, schema, registry, message, user_info=connection.registry_user_info)

    @property
    def is_free_json(self) -> bool:
        """Returns whether neither a file nor a registry has the schema."""
        return self.format == "json" and self.registry is None and (self.schema is None or self.is_inferred)

    @property
    def is_inferred(self) -> bool:
        """Returns whether the type is to follow from the values, in a table, too."""
        return self.format == "json" and isinstance(self.schema, str | Path) and str(self.schema) == INFER


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
        return AvroDecoder(schema, lambda value: (schema, value))
    registry = _registry(named)
    newest = registry.latest(named.subject or f"{topic}-value")
    parsed = {newest.id: _of_kind(newest.schema, parsed_schema)}

    def writer_of(value: bytes) -> tuple[object, bytes]:
        schema_id, rest = framed(value)
        if schema_id not in parsed:
            parsed[schema_id] = parsed_schema(registry.schema(schema_id))
        return parsed[schema_id], rest

    return AvroDecoder(parsed[newest.id], writer_of)


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


# ---- rows


UNDECODABLE = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)


def typed(batch: pa.RecordBatch, decoder: Decoder) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """A RecordBatch of a scan with its values decoded, and the rows of UNDECODABLE that are not in it.

    The batch has `value` and whatever else the caller wants; UNDECODABLE rows have the columns that the batch has.
    """
    number = batch.schema.get_field_index("value")
    found = decoder.decode(batch.column(number))
    made = batch.set_column(number, pa.field("value", decoder.type), found.values)
    if not found.bad:
        return made, pa.RecordBatch.from_pylist([], UNDECODABLE)
    keep = np.ones(batch.num_rows, bool)
    keep[found.bad] = False
    left = batch.take(pa.array(found.bad))
    return made.filter(pa.array(keep)), _undecodable(left, found.reasons)


def typed_rows(batch: pa.RecordBatch, decoder: Decoder) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """All rows of a RecordBatch of a scan, with a column `value_error`, and the rows of UNDECODABLE.

    A value that does not decode is null, and its row has the reason.
    """
    number = batch.schema.get_field_index("value")
    found = decoder.decode(batch.column(number))
    made = batch.set_column(number, pa.field("value", decoder.type), found.values)
    reasons = np.full(batch.num_rows, None, object)
    reasons[found.bad] = found.reasons
    made = made.append_column("value_error", pa.array(reasons, pa.string()))
    if not found.bad:
        return made, pa.RecordBatch.from_pylist([], UNDECODABLE)
    return made, _undecodable(batch.take(pa.array(found.bad)), found.reasons)


def _undecodable(left: pa.RecordBatch, reasons: Sequence[str]) -> pa.RecordBatch:
    columns = {name: left.column(name) for name in left.schema.names}
    columns["reason"] = pa.array(reasons, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in UNDECODABLE.names], schema=UNDECODABLE)
