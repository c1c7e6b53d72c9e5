"""Typed values: JSON, Avro and Protobuf as Arrow structs, with the schemas of a registry or of a file.

A decoder takes an array of bytes and returns an array of structs, with the rows that do not decode and the reason of each.
No row changes because of another one. Tried and left: Polars' `json_decode` joins its rows into one document, so that one
value may become two; Arrow's JSON reader ends the process at a top-level null; readers of Avro files take a value's bytes
beyond its end. DuckDB transforms JSON row by row, fastavro and ptars decode Avro and Protobuf value by value.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..cli.client.errors import CommandError
from ..cli.records.schema_registry import RegistryFailure, Schema, SchemaRegistry, framed
from .errors import InvalidScan, SchemaRegistryUnavailable

FORMATS = ("json", "avro", "protobuf")
#: Rows of a sample from which the type of JSON values follows.
SAMPLE_ROWS = 10_000
#: Levels of structs and lists in a type; deeper ones are text, or refused.
_MOST_LEVELS = 32
_TEXT = pa.string()
#: Without an end, Arrow 26 fails in a slice of bytes.
_INT32_MAX = (1 << 31) - 1


class Decoded(NamedTuple):
    """`values`: a struct for each row, null for null and for rows that do not decode. `bad`: numbers of these, ascending."""

    values: pa.Array
    bad: list[int]
    reasons: list[str]


class Decoder(Protocol):
    """`type`: of the structs that `decode` makes."""

    type: pa.DataType

    def decode(self, values: pa.Array) -> Decoded: ...


# ---- JSON


class JsonDecoder:
    """Objects as structs of `type`. Fields that the type lacks are passed over; missing ones are null.

    Numbers, booleans and objects become text where the type has text, and text becomes a number or a time where the type has
    one and the text is one. Everything else does not decode.
    """

    def __init__(self, kind: pa.DataType) -> None:
        import duckdb

        if not pa.types.is_struct(kind) or not kind.num_fields:
            raise InvalidScan("JSON values need a schema with at least one field")
        self.type = kind
        self._raw_type = _raw_type(kind, 0)
        self._connection = duckdb.connect(config={"threads": 1})
        structure = json.dumps(_structure(self._raw_type)).replace("'", "''")
        self._transform = f"select try(json_transform(v, '{structure}')) as v from rows"

    def decode(self, values: pa.Array) -> Decoded:
        texts, bad = _texts(values)
        raw = self._query(self._transform, texts)
        suspects = self._suspects(texts, raw)
        for row in suspects:
            if row not in bad:
                reason = _mismatch_of_text(texts[row].as_py(), self.type)
                if reason is not None:
                    bad[row] = reason
        if bad:
            raw = _without(raw, bad)
        try:
            made = raw.cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            for row in np.flatnonzero(raw.is_valid().to_numpy(False)).tolist():
                reason = _mismatch_of_text(texts[row].as_py(), self.type) or _uncast(raw.take([row]), self.type)
                if reason is not None:
                    bad[row] = reason
            made = _without(raw, bad).cast(self.type)
        rows = sorted(bad)
        return Decoded(made, rows, [bad[row] for row in rows])

    def _query(self, sql: str, texts: pa.Array) -> pa.Array:
        cursor = self._connection.cursor()
        cursor.register("rows", pa.table({"v": texts}))
        table = cursor.sql(sql).to_arrow_table()  # a relation: of a result, DuckDB 2 makes another copy of the rows
        assert table is not None
        found = table.column("v").combine_chunks()
        assert len(found) == len(texts)
        return found

    def _suspects(self, texts: pa.Array, raw: pa.Array) -> list[int]:
        """Rows whose null fields may be of another type, rather than missing or null."""
        found = set(np.flatnonzero(pc.and_(raw.is_null(), texts.is_valid()).to_numpy(False)).tolist())
        is_empty = raw.is_valid().to_numpy(False)  # no field: perhaps no object
        for number, field in enumerate(raw.type):
            column = pc.struct_field(raw, [number])
            is_null = column.is_null().to_numpy(False)
            is_empty = is_empty & is_null
            nulls = np.flatnonzero(is_null & raw.is_valid().to_numpy(False))
            if len(nulls):
                path = json.dumps(field.name, ensure_ascii=False).replace("'", "''")
                kinds = self._query(f"select json_type(v, '$.{path}') as v from rows", texts.take(pa.array(nulls)))
                wrong = pc.fill_null(pc.not_equal(kinds, "NULL"), False).to_numpy(False)
                found |= set(nulls[wrong].tolist())
            is_inner = pa.types.is_nested(field.type) or pa.types.is_floating(field.type)
            if is_inner and _has_suspects(column.drop_null()):
                found |= set(np.flatnonzero(~is_null).tolist())
        found |= set(np.flatnonzero(is_empty).tolist())
        return sorted(found)


def _texts(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Values as text, without a registry's frame; null, and a reason, where they are not UTF-8."""
    if pc.any(pc.starts_with(values, "\0")).as_py():
        has_frame = pc.fill_null(pc.starts_with(values, "\0"), False)
        values = pc.if_else(has_frame, pc.binary_slice(values, 5, _INT32_MAX), values)
    try:
        return values.cast(pa.string()), {}
    except pa.ArrowInvalid:
        found, bad = [], {}
        for row, value in enumerate(values.to_pylist()):
            try:
                found.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                found.append(None)
                bad[row] = f"it is not UTF-8: {error.reason} at byte {error.start}"
        return pa.array(found, pa.string()), bad


def _without(values: pa.Array, bad: dict[int, str]) -> pa.Array:
    """The values with nulls, whose fields are null as well, for the bad ones."""
    places = np.arange(len(values))
    is_bad = np.zeros(len(values), bool)
    is_bad[list(bad)] = True
    return values.take(pa.array(places, mask=is_bad))


def _has_suspects(column: pa.Array) -> bool:
    """Returns whether a column has nulls, or numbers that JSON does not have, at any level."""
    if column.null_count:
        return True
    if pa.types.is_list(column.type):
        return _has_suspects(column.flatten())
    if pa.types.is_struct(column.type):
        return any(_has_suspects(pc.struct_field(column, [number])) for number in range(column.type.num_fields))
    return bool(pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py())


def _raw_type(kind: pa.DataType, level: int) -> pa.DataType:
    """The type that JSON is transformed to first: numbers that could be rounded, and times, are text until they are cast."""
    if level > _MOST_LEVELS:
        raise InvalidScan(f"a schema of more than {_MOST_LEVELS} levels")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _raw_type(one.type, level + 1)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_raw_type(kind.value_type, level + 1))
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_boolean(kind):
        return pa.bool_()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_cast = any(check(kind) for check in (pa.types.is_integer, pa.types.is_decimal, pa.types.is_temporal))
    if is_text or is_cast:
        return pa.string()
    raise InvalidScan(f"JSON values cannot be of the type {kind}")


def _structure(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {one.name: _structure(one.type) for one in kind}
    if pa.types.is_list(kind):
        return [_structure(kind.value_type)]
    return "DOUBLE" if pa.types.is_floating(kind) else "BOOLEAN" if pa.types.is_boolean(kind) else "VARCHAR"


def _mismatch_of_text(text: str | None, kind: pa.DataType) -> str | None:
    if text is None:
        return None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error or 'too many levels'}"
    return _mismatch(value, kind, "")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")


def _mismatch(value: Any, kind: pa.DataType, name: str) -> str | None:
    """Returns why a value of JSON is not of a type; None where it is."""
    where = name or "the value"
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return f"{where} is {_kind_of(value)}, not an object"
        checks = (_mismatch(value.get(one.name), one.type, f"{name}.{one.name}".lstrip(".")) for one in kind)
        return next((reason for reason in checks if reason is not None), None)
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            return f"{where} is {_kind_of(value)}, not a list"
        checks = (_mismatch(one, kind.value_type, f"{where}[{number}]") for number, one in enumerate(value))
        return next((reason for reason in checks if reason is not None), None)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return None
    return _scalar_mismatch(value, kind, where)


def _scalar_mismatch(value: Any, kind: pa.DataType, where: str) -> str | None:
    reason = f"{where} is {_kind_of(value)}, not {kind}"
    if isinstance(value, dict | list):
        return reason
    if pa.types.is_boolean(kind):
        return None if isinstance(value, bool) or value in ("true", "false") else reason
    if isinstance(value, bool):
        return reason
    if pa.types.is_floating(kind):
        try:
            return None if math.isfinite(float(value)) else reason
        except (ValueError, OverflowError):
            return reason
    text = value if isinstance(value, str) else json.dumps(value)
    return None if _uncast(pa.array([text]), kind) is None else reason


def _uncast(one: pa.Array, kind: pa.DataType) -> str | None:
    try:
        one.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return str(error).partition("\n")[0]
    return None


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        return f"the text {shown!r}"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return f"{json.dumps(value)}"


def json_type_of(values: pa.Array, rows: int = SAMPLE_ROWS, unknown: pa.DataType | None = _TEXT) -> pa.DataType:
    """The type of a sample of JSON values: the fields of all objects. Raises InvalidScan where there is no object.

    `unknown`: of a field that is null in all of them; None leaves the field out.
    """
    import duckdb

    texts, _ = _texts(values.slice(0, rows))
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", pa.table({"v": texts}))
        objects = "select try_cast(v as json) as v from rows"
        sql = f"select json_group_structure(v) from ({objects}) where json_type(v) = 'OBJECT'"
        (found,) = connection.execute(sql).fetchone() or (None,)
    structure = json.loads(found) if found is not None else None
    if not isinstance(structure, dict) or not structure:
        raise InvalidScan("no value is a JSON object with a field: name a schema")
    kind = _type_of_structure(structure, 0, unknown)
    if not pa.types.is_struct(kind) or not kind.num_fields:
        raise InvalidScan("no value is a JSON object with a field that has a value: name a schema")
    return kind


_INFERRED = {"UBIGINT": pa.int64(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
_NULL = "NULL"


def _type_of_structure(structure: Any, level: int, unknown: pa.DataType | None) -> pa.DataType:
    if isinstance(structure, dict) and level < _MOST_LEVELS:
        fields = [
            (name, _type_of_structure(one, level + 1, unknown))
            for name, one in structure.items()
            if unknown is not None or not _is_unknown(one)
        ]
        if fields:
            return pa.struct(fields)
    if isinstance(structure, list) and structure and level < _MOST_LEVELS:
        return pa.list_(_type_of_structure(structure[0], level + 1, unknown))
    if structure == _NULL and unknown is not None:
        return unknown
    return _INFERRED.get(structure, pa.string()) if isinstance(structure, str) else pa.string()


def _is_unknown(structure: Any) -> bool:
    """Returns whether a structure has no value but null, at any level."""
    if isinstance(structure, dict):
        return all(map(_is_unknown, structure.values()))
    if isinstance(structure, list):
        return all(map(_is_unknown, structure))
    return bool(structure == _NULL)


_JSON_SCHEMA_TYPES = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def type_of_json_schema(text: str) -> pa.DataType:
    """The type of a JSON Schema with properties. What it cannot say in columns, as `oneOf`, is text."""
    try:
        found = _of_json_schema(json.loads(text), 0)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidScan(f"not a JSON Schema: {error}") from None
    if not pa.types.is_struct(found):
        raise InvalidScan("the JSON Schema has no properties")
    return found


def _of_json_schema(schema: Any, level: int) -> pa.DataType:
    kinds = schema.get("type")
    kinds = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if one != "null"]
    kind = kinds[0] if len(kinds) == 1 else None
    if level < _MOST_LEVELS:
        if kind in ("object", None) and isinstance(schema.get("properties"), dict):
            fields = schema["properties"].items()
            return pa.struct([(str(name), _of_json_schema(one, level + 1)) for name, one in fields])
        if kind == "array" and isinstance(schema.get("items"), dict):
            return pa.list_(_of_json_schema(schema["items"], level + 1))
    return _JSON_SCHEMA_TYPES.get(str(kind), pa.string())


# ---- Avro


class AvroDecoder:
    """Avro records by fastavro. `writer_of`: the schema that a value was written with, and the rest of its bytes."""

    def __init__(self, reader: Any, writer_of: Callable[[bytes], tuple[Any, bytes]]) -> None:
        self._reader = reader
        self._writer_of = writer_of
        self.type = _avro_type(reader, {}, 0)
        if not pa.types.is_struct(self.type):
            raise InvalidScan("the Avro schema is not a record")

    def decode(self, values: pa.Array) -> Decoded:
        rows, bad, reasons = [], [], []
        for number, value in enumerate(values.to_pylist()):
            try:
                rows.append(None if value is None else self._one(value))
            except RegistryFailure as failure:
                raise SchemaRegistryUnavailable(str(failure)) from None
            except Exception as error:  # fastavro raises what it meets: struct.error, EOFError, KeyError and so on
                rows.append(None)
                bad.append(number)
                reasons.append(str(error) or type(error).__name__)
        return _built(rows, self.type, bad, reasons)

    def _one(self, value: bytes) -> Any:
        import fastavro

        writer, rest = self._writer_of(value)
        source = io.BytesIO(rest)
        found = fastavro.schemaless_reader(source, writer, None if writer is self._reader else self._reader)
        if source.tell() != len(rest):
            raise ValueError(f"{len(rest) - source.tell()} bytes are left after the record")
        return found


_AVRO = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(),
}  # fmt: skip
_AVRO_LOGICAL = {
    "timestamp-millis": pa.timestamp("ms", tz="UTC"), "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"), "local-timestamp-micros": pa.timestamp("us"),
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
}  # fmt: skip


def _avro_type(schema: Any, named: dict[str, Any], level: int) -> pa.DataType:
    """Raises InvalidScan for a union of several types, and for a type that contains itself: no column has these."""
    if level > _MOST_LEVELS:
        raise InvalidScan("an Avro type that contains itself cannot be a column")
    if isinstance(schema, str):
        return _avro_type(named[schema], named, level + 1) if schema in named else _AVRO[schema]
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) > 1:
            raise InvalidScan(f"an Avro union of {len(others)} types cannot be a column")
        return _avro_type(others[0], named, level + 1) if others else pa.null()
    kind, logical = schema["type"], schema.get("logicalType")
    if "name" in schema:
        named[schema["name"]] = schema
    if logical == "decimal":
        return pa.decimal128(int(schema["precision"]), int(schema.get("scale", 0)))
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if kind in ("record", "error"):
        return pa.struct([(one["name"], _avro_type(one["type"], named, level + 1)) for one in schema["fields"]])
    if kind == "array":
        return pa.list_(_avro_type(schema["items"], named, level + 1))
    if kind == "map":
        return pa.map_(pa.string(), _avro_type(schema["values"], named, level + 1))
    if kind == "fixed":
        return pa.binary(int(schema["size"]))
    return _avro_type(kind, named, level + 1) if not isinstance(kind, str) or kind in named else _AVRO[kind]


def _built(rows: list[Any], kind: pa.DataType, bad: list[int], reasons: list[str]) -> Decoded:
    """Rows as an array; those that Arrow does not take are bad, too."""
    try:
        return Decoded(pa.array(rows, kind), bad, reasons)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
        found = dict(zip(bad, reasons, strict=True))
        for number, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as error:
                found[number], rows[number] = str(error).partition("\n")[0], None
        numbers = sorted(found)
        return Decoded(pa.array(rows, kind), numbers, [found[one] for one in numbers])


# ---- Protobuf


class ProtobufDecoder:
    """Protobuf messages by ptars. `message_of`: the descriptor of a value's message, and the rest of its bytes.

    Values of other messages than `message` (other versions of its schema) have their fields matched by name.
    """

    def __init__(self, message: Any, message_of: Callable[[bytes], tuple[Any, bytes]]) -> None:
        self._message_of = message_of
        self._handlers: dict[Any, Any] = {}
        self.type = _nullable(pa.struct(list(self._handler(message).schema())))

    def _handler(self, message: Any) -> Any:
        if message not in self._handlers:
            from ptars import HandlerPool

            self._handlers[message] = HandlerPool([message.file]).get_for_message(message)
        return self._handlers[message]

    def decode(self, values: pa.Array) -> Decoded:
        bad: dict[int, str] = {}
        by_message: dict[Any, tuple[list[int], list[bytes]]] = {}
        for number, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                message, rest = self._message_of(value)
            except RegistryFailure as failure:
                raise SchemaRegistryUnavailable(str(failure)) from None
            except (ValueError, IndexError, CommandError) as error:
                bad[number] = str(error)
                continue
            rows, bodies = by_message.setdefault(message, ([], []))
            rows.append(number)
            bodies.append(rest)
        pieces, places = [pa.nulls(1, self.type)], np.zeros(len(values), np.int64)
        at = 1
        for message, (rows, bodies) in by_message.items():
            for kept, piece in self._converted(message, rows, bodies, bad):
                pieces.append(piece)
                places[kept] = np.arange(at, at + len(piece))
                at += len(piece)
        made = pa.chunked_array(pieces, self.type).take(pa.array(places)).combine_chunks()
        numbers = sorted(bad)
        return Decoded(made, numbers, [bad[one] for one in numbers])

    def _converted(
        self, message: Any, rows: list[int], bodies: list[bytes], bad: dict[int, str]
    ) -> list[tuple[list[int], pa.Array]]:
        try:
            found = self._handler(message).array_to_record_batch(pa.array(bodies, pa.binary()))
            return [(rows, _conformed(found, self.type))]
        except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if len(rows) == 1:
                bad[rows[0]] = str(error).partition("\n")[0]
                return []
        half = len(rows) // 2
        parts = ((rows[:half], bodies[:half]), (rows[half:], bodies[half:]))
        return [piece for part in parts for piece in self._converted(message, *part, bad)]


def _conformed(found: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
    columns = [
        found.column(one.name).cast(one.type) if one.name in found.schema.names else pa.nulls(found.num_rows, one.type)
        for one in kind
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type with fields that may be null: a schema of another version lacks some."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _nullable(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return kind


def floored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps of nanoseconds, as Protobuf has them, without the digits that a type of microseconds lacks."""
    is_finer = pa.types.is_timestamp(values.type) and values.type.unit == "ns"
    if is_finer and pa.types.is_timestamp(kind) and kind.unit == "us":
        return pc.floor_temporal(values, unit="microsecond")
    return values


# ---- schemas


class ValueSchema(NamedTuple):
    """Names the schema of values. `format`: json, avro or protobuf. `schema`: an Arrow schema or a file; `registry`: a URL.

    `message`: of Protobuf, the first one of the file otherwise. `subject`: of the registry, TOPIC-value otherwise; its
    newest schema has the columns, and each value is decoded by the schema whose id it has.
    """

    format: str
    schema: pa.Schema | pa.DataType | str | Path | None = None
    registry: str | None = None
    message: str | None = None
    subject: str | None = None
    user_info: str | None = None


def decoder_of(named: ValueSchema, topic: str, sample: Callable[[], pa.Array]) -> Decoder:
    """The decoder for values of a topic. `sample`: of values, where JSON has no schema. Raises InvalidScan, and
    SchemaRegistryUnavailable, as the decoder does."""
    if named.format not in FORMATS:
        raise InvalidScan(f"value_format is {named.format!r}; it takes {', '.join(FORMATS)}")
    if named.registry is not None and named.schema is not None:
        raise InvalidScan("values have a schema, or a registry, not both")
    if named.format != "json" and named.registry is None and named.schema is None:
        raise InvalidScan(f"{named.format} values need a schema file or a schema registry")
    try:
        return _MAKERS[named.format](named, topic, sample)
    except RegistryFailure as failure:
        raise SchemaRegistryUnavailable(str(failure)) from None
    except CommandError as error:
        raise InvalidScan(str(error)) from None


def _json_decoder(named: ValueSchema, topic: str, sample: Callable[[], pa.Array]) -> Decoder:
    schema = named.schema
    if isinstance(schema, pa.Schema):
        return JsonDecoder(pa.struct(list(schema)))
    if isinstance(schema, pa.DataType):
        return JsonDecoder(schema)
    if schema is not None:
        return JsonDecoder(type_of_json_schema(_read(schema)))
    if named.registry is not None:
        newest = _registry(named).latest(named.subject or f"{topic}-value").schema
        return JsonDecoder(type_of_json_schema(newest.text))
    return JsonDecoder(json_type_of(sample()))


def _avro_decoder(named: ValueSchema, topic: str, sample: Callable[[], pa.Array]) -> Decoder:
    from ..cli.records.decoding import parsed_schema, schema_of_file

    if named.registry is None:
        schema = schema_of_file(_path(named))
        return AvroDecoder(schema, lambda value: (schema, value))
    registry = _registry(named)
    newest = registry.latest(named.subject or f"{topic}-value")
    parsed = {newest.id: _of_kind(newest.schema, parsed_schema)}

    def writer_of(value: bytes) -> tuple[Any, bytes]:
        schema_id, rest = framed(value)
        if schema_id not in parsed:
            parsed[schema_id] = parsed_schema(registry.schema(schema_id))
        return parsed[schema_id], rest

    return AvroDecoder(parsed[newest.id], writer_of)


def _of_kind(schema: Schema, parse: Callable[[Schema], Any]) -> Any:
    try:
        return parse(schema)
    except ValueError as error:
        raise InvalidScan(f"the registry's schema does not fit: {error}") from None


def _protobuf_decoder(named: ValueSchema, topic: str, sample: Callable[[], pa.Array]) -> Decoder:
    from ..cli.records.decoding import message_of_file, message_of_schema, message_of_value

    if named.registry is None:
        message = message_of_file(_path(named), named.message)
        return ProtobufDecoder(message, lambda value: (message, value))
    registry = _registry(named)
    newest = registry.latest(named.subject or f"{topic}-value").schema
    return ProtobufDecoder(message_of_schema(newest, named.message), message_of_value(registry))


_MAKERS: dict[str, Callable[[ValueSchema, str, Callable[[], pa.Array]], Decoder]] = {
    "json": _json_decoder,
    "avro": _avro_decoder,
    "protobuf": _protobuf_decoder,
}


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


def _undecodable(left: pa.RecordBatch, reasons: Sequence[str]) -> pa.RecordBatch:
    columns = {name: left.column(name) for name in left.schema.names}
    columns["reason"] = pa.array(reasons, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in UNDECODABLE.names], schema=UNDECODABLE)
