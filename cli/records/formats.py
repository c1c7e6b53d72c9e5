"""Formats of keys and values (`--key-format`, `--value-format`): `consume` decodes them, `produce` encodes them."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.connection import Connection
from ..client.errors import CommandError, Misused
from .writing import Decode

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema
    from google.protobuf.descriptor import Descriptor

    from .consumed import Content
    from .schema_registry import SchemaRegistry


class Form(StrEnum):
    text = "text"
    json = "json"
    hex = "hex"
    base64 = "base64"
    int32 = "int32"
    int64 = "int64"
    float = "float"
    double = "double"
    avro = "avro"
    protobuf = "protobuf"


@dataclass(frozen=True, slots=True)
class Coding:
    form: Form
    registry: str | None = None
    schema: Path | None = None
    message: str | None = None


NUMBERS = {Form.int32: ">i", Form.int64: ">q", Form.float: ">f", Form.double: ">d"}


# ---- decoding, for `consume`


def decoder(coding: Coding, connection: Connection) -> Decode | None:
    """A function of bytes and topic; None leaves bytes as they are. Raises Misused for schemas that are missing."""
    if coding.form is Form.text:
        return None
    if coding.form in (Form.avro, Form.protobuf):
        return _explained_decode(coding.form, _decode_with_schema(coding, connection))
    return _explained_decode(coding.form, _DECODERS[coding.form])


def _explained_decode(form: Form, decode: Callable[[bytes], Content]) -> Decode:
    def decoded(data: bytes | None, topic: str) -> Content:
        if data is None:
            return None
        try:
            return decode(data)
        except (ValueError, KeyError, IndexError, EOFError, struct.error, TypeError, UnicodeDecodeError) as error:
            raise CommandError(
                f"a record of {topic} is not {form}: {error or type(error).__name__}; try text or hex"
            ) from None

    return decoded


def _decode_number(form: str) -> Callable[[bytes], Content]:
    return lambda data: struct.unpack(form, data)[0]


def _decode_json(data: bytes) -> Content:
    """JSON, with or without a schema's id before it."""
    return json.loads(data[5:] if data[:1] == b"\0" else data)


_DECODERS: dict[Form, Callable[[bytes], Content]] = {
    Form.json: _decode_json,
    Form.hex: lambda data: data.hex(),
    Form.base64: lambda data: base64.b64encode(data).decode(),
    **{form: _decode_number(code) for form, code in NUMBERS.items()},
}


def _decode_with_schema(coding: Coding, connection: Connection) -> Callable[[bytes], Content]:
    if (coding.registry is None) == (coding.schema is None):
        raise Misused(f"{coding.form} needs --schema-registry URL or a schema file, not both")
    if coding.form is Form.avro:
        from .decoding import avro_from_file, avro_from_registry

        if coding.schema is not None:
            return avro_from_file(coding.schema)
        return avro_from_registry(registry_of(coding, connection))
    from .decoding import protobuf_from_file, protobuf_from_registry

    if coding.schema is not None:
        return protobuf_from_file(coding.schema, coding.message)
    return protobuf_from_registry(registry_of(coding, connection))


def decoder_by_schema(registry: SchemaRegistry) -> Callable[[bytes], tuple[str, Content]]:
    """A function of a value with a schema's id before it. The id decides: the function returns the schema's kind and the
    value. It raises ValueError and so on for damaged values, CommandError for schemas that cannot be read.
    """
    from .schema_registry import framed

    by_kind: dict[str, Callable[[bytes], Content]] = {"JSON": _decode_json}

    def decode(data: bytes) -> tuple[str, Content]:
        schema_id, _ = framed(data)
        kind = registry.schema(schema_id).kind
        if kind not in by_kind:
            by_kind[kind] = _decoder_of_kind(kind, registry)
        return kind, by_kind[kind](data)

    return decode


def _decoder_of_kind(kind: str, registry: SchemaRegistry) -> Callable[[bytes], Content]:
    if kind == "AVRO":
        from .decoding import avro_from_registry

        return avro_from_registry(registry)
    if kind == "PROTOBUF":
        from .decoding import protobuf_from_registry

        return protobuf_from_registry(registry)
    raise ValueError(f"its schema is {kind}")


def registry_of(coding: Coding, connection: Connection) -> SchemaRegistry:
    # The HTTP client of a registry takes 12 ms to load.
    from .schema_registry import SchemaRegistry

    assert coding.registry is not None
    return SchemaRegistry(coding.registry, connection.properties.get("schema.registry.basic.auth.user.info"))


# ---- encoding, for `produce`

#: Makes the bytes of a key or value of its text.
Encode = Callable[[bytes], bytes]


def encoder(coding: Coding, connection: Connection, subject: str) -> Encode | None:
    """None leaves bytes as they are. `subject`: where a registry has the schema. Raises Misused when a schema is missing."""
    if coding.form is Form.text:
        return None
    if coding.form in (Form.avro, Form.protobuf):
        return _explained_encode(coding.form, _encode_with_schema(coding, connection, subject))
    return _explained_encode(coding.form, _ENCODERS[coding.form])


def _explained_encode(form: Form, encode: Encode) -> Encode:
    def encoded(text: bytes) -> bytes:
        try:
            return encode(text)
        except (ValueError, KeyError, TypeError, AttributeError, struct.error, OverflowError) as error:
            shown = text[:60].decode(errors="backslashreplace")
            raise CommandError(f"{shown!r} is not {form}: {error or type(error).__name__}") from None

    return encoded


def _encode_json(text: bytes) -> bytes:
    json.loads(text)
    return text


def _encode_number(form: Form) -> Encode:
    kind = int if form in (Form.int32, Form.int64) else float
    return lambda text: struct.pack(NUMBERS[form], kind(text))


_ENCODERS: dict[Form, Encode] = {
    Form.json: _encode_json,
    Form.hex: lambda text: bytes.fromhex(text.decode()),
    Form.base64: lambda text: base64.b64decode(text, validate=True),
    **{form: _encode_number(form) for form in NUMBERS},
}


def _encode_with_schema(coding: Coding, connection: Connection, subject: str) -> Encode:
    if (coding.registry is None) == (coding.schema is None):
        raise Misused(f"{coding.form} needs --schema-registry URL or a schema file, not both")
    if coding.schema is not None:
        return _encode_by_file(coding)
    registered = registry_of(coding, connection).latest(subject)
    head = struct.pack(">bI", 0, registered.id)
    if coding.form is Form.avro:
        from .decoding import parsed_schema

        if registered.schema.kind != "AVRO":
            raise Misused(f"the registry's schema of {subject} is {registered.schema.kind}, not AVRO")
        write = _encode_avro(parsed_schema(registered.schema))
        return lambda text: head + write(text)
    from .decoding import index_path, message_of_schema

    message = message_of_schema(registered.schema, coding.message)
    head += index_path(message)
    made = _encode_protobuf(message)
    return lambda text: head + made(text)


def _encode_by_file(coding: Coding) -> Encode:
    assert coding.schema is not None
    if coding.form is Form.avro:
        from .decoding import schema_of_file

        return _encode_avro(schema_of_file(coding.schema))
    from .decoding import message_of_file

    return _encode_protobuf(message_of_file(coding.schema, coding.message))


def _encode_avro(schema: AvroSchema) -> Encode:
    import fastavro

    def write(text: bytes) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, json.loads(text))
        return out.getvalue()

    return write


def _encode_protobuf(message: Descriptor) -> Encode:
    from google.protobuf import json_format, message_factory

    kind = message_factory.GetMessageClass(message)

    def write(text: bytes) -> bytes:
        try:
            return bytes(json_format.Parse(text, kind()).SerializeToString())
        except json_format.ParseError as error:
            raise ValueError(str(error)) from None

    return write
